package server

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

func TestPageTokens(t *testing.T) {
	first, err := newPage(10, "", "machines", "phase=READY")
	if err != nil {
		t.Fatal(err)
	}
	token := first.token("m-1")
	for _, tt := range []struct {
		name  string
		token string
		what  []string
		size  int32
		ok    bool
	}{
		{"the same list", token, []string{"machines", "phase=READY"}, 10, true},
		{"another page size", token, []string{"machines", "phase=READY"}, 500, true},
		{"another filter", token, []string{"machines", "phase=RMA"}, 10, false},
		{"another list", token, []string{"runs", "phase=READY"}, 10, false},
		{"parts shifted", token, []string{"machinesp", "hase=READY"}, 10, false},
		{"cut", token[:6], []string{"machines", "phase=READY"}, 10, false},
		{"no key", base64.RawURLEncoding.EncodeToString(make([]byte, 8)), []string{"machines", "phase=READY"}, 10, false},
		{"not base64", "!!!", []string{"machines", "phase=READY"}, 10, false},
		{"negative size", "", []string{"machines", "phase=READY"}, -1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := newPage(tt.size, tt.token, tt.what...)
			if (err == nil) != tt.ok || tt.ok && p.after != "m-1" {
				t.Errorf("got %+v, %v", p, err)
			}
		})
	}
	for size, want := range map[int32]int{0: 100, 1: 1, 1000: 1000, 5000: 1000} {
		if p, err := newPage(size, "", "x"); err != nil || p.size != want {
			t.Errorf("page_size %d: got %+v, %v, want %d", size, p, err, want)
		}
	}
}

// TestPageBytes checks that a page fits in gRPC's default limit of a client.
func TestPageBytes(t *testing.T) {
	rows := func(yield func(string, *holdfastv1.Plan) bool) {
		for i := range 50 {
			if !yield(fmt.Sprintf("%02d", i), &holdfastv1.Plan{DisplayName: strings.Repeat("x", 200<<10)}) {
				return
			}
		}
	}
	p, _ := newPage(0, "", "x")
	got, next, err := collect(context.Background(), p, rows, func(*holdfastv1.Plan) bool { return true })
	if err != nil || next == "" {
		t.Fatalf("got token %q, %v", next, err)
	}
	if size := proto.Size(&holdfastv1.ListPlansResponse{Plans: got}); size > 4<<20 || size < 2<<20 {
		t.Errorf("the page has %d bytes", size)
	}
}

func TestCollectStops(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	seen := 0
	rows := func(yield func(string, *holdfastv1.Plan) bool) {
		for ; yield("k", nil); seen++ {
		}
	}
	p, _ := newPage(0, "", "x")
	if _, _, err := collect(ctx, p, rows, func(*holdfastv1.Plan) bool { return false }); err == nil {
		t.Error("a call that is over went on")
	}
}

// ids returns the ids of all pages of a list, with a change after each page.
func ids[M any](t *rapid.T, id func(M) string, change func(), list func(token string) ([]M, string, error)) []string {
	var all []string
	for token := ""; ; change() {
		rows, next, err := list(token)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			all = append(all, id(r))
		}
		if token = next; token == "" {
			return all
		}
	}
}

// checkPages checks the pages of a list that changes meanwhile. Rows that exist all the
// time must be there once and in order, and no row twice.
func checkPages(t *rapid.T, got, before []string, sorted func([]string) bool) {
	for _, id := range before {
		if !slices.Contains(got, id) {
			t.Fatalf("%s was left out: %v", id, got)
		}
	}
	if !sorted(got) {
		t.Fatalf("out of order, or twice: %v", got)
	}
}

func TestMachinePages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := newNode()
		s := &machineService{Server: New(Config{}, n, n.peer, testProviders())}
		size := rapid.Int32Range(1, 7).Draw(t, "page size")
		filter := rapid.SampledFrom([]string{"", "rack = r1", "NOT rack = r1", "machine_id = m-05"}).Draw(t, "filter")
		add := func() {
			id := fmt.Sprintf("m-%02d", rapid.IntRange(0, 40).Draw(t, "machine"))
			n.peer.Do(&internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: id,
				Spec: &holdfastv1.MachineSpec{Rack: "r" + id[3:4]}}})
		}
		for range rapid.IntRange(0, 25).Draw(t, "machines") {
			add()
		}
		list := func(size int32) func(string) ([]*holdfastv1.Machine, string, error) {
			return func(token string) ([]*holdfastv1.Machine, string, error) {
				r, err := s.ListMachines(context.Background(), &holdfastv1.ListMachinesRequest{Filter: filter, PageSize: size,
					PageToken: token})
				if len(r.GetMachines()) > int(size) {
					t.Fatalf("%d machines on a page of %d", len(r.GetMachines()), size)
				}
				return r.GetMachines(), r.GetNextPageToken(), err
			}
		}
		before := ids(t, (*holdfastv1.Machine).GetMachineId, func() {}, list(1000))
		if again := ids(t, (*holdfastv1.Machine).GetMachineId, func() {}, list(size)); !slices.Equal(again, before) {
			t.Fatalf("pages of %d give %v, one page %v", size, again, before)
		}
		got := ids(t, (*holdfastv1.Machine).GetMachineId, add, list(size))
		checkPages(t, got, before, func(got []string) bool {
			return slices.IsSorted(got) && len(slices.Compact(slices.Clone(got))) == len(got)
		})
	})
}

func TestRunPages(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := newNode()
		s := &runService{Server: New(Config{}, n, n.peer, testProviders())}
		size := rapid.Int32Range(1, 7).Draw(rt, "page size")
		filter := rapid.SampledFrom([]string{"", "machine_id=m-1", "phase = CANCELED",
			"plan_id=one AND NOT machine_id=m-0"}).Draw(rt, "filter")
		for i := range 3 {
			n.machine(t, fmt.Sprintf("m-%d", i))
		}
		made := 0
		add := func() {
			made++
			id := fmt.Sprintf("run-%04d", made)
			n.start(t, fmt.Sprintf("m-%d", rapid.IntRange(0, 2).Draw(rt, "machine")), id, "")
			n.do(t, &internalv1.CancelRun{RunId: id})
		}
		for range rapid.IntRange(0, 25).Draw(rt, "runs") {
			add()
		}
		list := func(size int32) func(string) ([]*holdfastv1.Run, string, error) {
			return func(token string) ([]*holdfastv1.Run, string, error) {
				r, err := s.ListRuns(context.Background(), &holdfastv1.ListRunsRequest{Filter: filter, PageSize: size,
					PageToken: token})
				return r.GetRuns(), r.GetNextPageToken(), err
			}
		}
		before := ids(rt, (*holdfastv1.Run).GetRunId, func() {}, list(1000))
		got := ids(rt, (*holdfastv1.Run).GetRunId, add, list(size))
		checkPages(rt, got, before, func(got []string) bool { // newest first
			for i := 1; i < len(got); i++ {
				if got[i] >= got[i-1] {
					return false
				}
			}
			return true
		})
	})
}

func TestHistoryAndPlanPages(t *testing.T) {
	n := newNode()
	_, c := serve(t, n, Config{})
	ctx := testCtx(t)
	n.machine(t, "m-1")
	for i := range 6 {
		phase := holdfastv1.MachineStatus_MAINTENANCE
		if i%2 == 1 {
			phase = holdfastv1.MachineStatus_READY
		}
		n.do(t, &internalv1.SetMachinePhase{MachineId: "m-1", Phase: phase})
	}
	var sequences []uint64
	for token := ""; ; {
		r, err := c.ListMachineHistory(ctx, &holdfastv1.ListMachineHistoryRequest{MachineId: "m-1", PageSize: 3,
			PageToken: token})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range r.GetEntries() {
			sequences = append(sequences, e.GetSequence())
		}
		if token = r.GetNextPageToken(); token == "" {
			break
		}
	}
	if want := []uint64{7, 6, 5, 4, 3, 2, 1}; !slices.Equal(sequences, want) {
		t.Errorf("history: got %v, want %v", sequences, want)
	}

	var plans []string
	for token := ""; ; {
		r, err := c.ListPlans(ctx, &holdfastv1.ListPlansRequest{PageSize: 2, PageToken: token})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range r.GetPlans() {
			plans = append(plans, p.GetPlanId())
		}
		if token = r.GetNextPageToken(); token == "" {
			break
		}
	}
	var want []string
	for _, p := range fsm.DefaultPlans() {
		want = append(want, p.GetPlanId())
	}
	slices.Sort(want)
	if !slices.Equal(plans, want) {
		t.Errorf("plans: got %v, want %v", plans, want)
	}
}

// TestListRunsQueue checks that lists have the same queue positions as GetRun.
func TestListRunsQueue(t *testing.T) {
	n := newNode()
	_, c := serve(t, n, Config{})
	for i := range 3 {
		n.machine(t, fmt.Sprintf("m-%d", i))
		n.start(t, fmt.Sprintf("m-%d", i), fmt.Sprintf("run-%d", i), "")
	}
	n.begin(t, "run-0", 1)
	r, err := c.ListRuns(testCtx(t), &holdfastv1.ListRunsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, run := range r.GetRuns() {
		got = append(got, fmt.Sprintf("%s %d", run.GetRunId(), run.GetQueuePosition()))
	}
	if want := []string{"run-2 2", "run-1 1", "run-0 0"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
