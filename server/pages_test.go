package server

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/internal/fleet"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
)

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
		n := nodetest.New()
		s := fleet.NewMachines(New(Config{}, n, n.Peer, testProviders()).peer, testProviders())
		size := rapid.Int32Range(1, 7).Draw(t, "page size")
		filter := rapid.SampledFrom([]string{"", "rack = r1", "NOT rack = r1", "machine_id = m-05"}).Draw(t, "filter")
		add := func() {
			id := fmt.Sprintf("m-%02d", rapid.IntRange(0, 40).Draw(t, "machine"))
			n.Peer.Do(&internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: id,
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
		n := nodetest.New()
		s := New(Config{}, n, n.Peer, testProviders()).runs
		size := rapid.Int32Range(1, 7).Draw(rt, "page size")
		filter := rapid.SampledFrom([]string{"", "machine_id=m-1", "phase = CANCELED",
			"plan_id=one AND NOT machine_id=m-0"}).Draw(rt, "filter")
		for i := range 3 {
			n.Machine(t, fmt.Sprintf("m-%d", i))
		}
		made := 0
		add := func() {
			made++
			id := fmt.Sprintf("run-%04d", made)
			n.Start(t, fmt.Sprintf("m-%d", rapid.IntRange(0, 2).Draw(rt, "machine")), id, "")
			n.Do(t, &internalv1.CancelRun{RunId: id})
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
	n := nodetest.New()
	_, c := serve(t, n, Config{})
	ctx := testCtx(t)
	n.Machine(t, "m-1")
	for i := range 6 {
		phase := holdfastv1.MachineStatus_MAINTENANCE
		if i%2 == 1 {
			phase = holdfastv1.MachineStatus_READY
		}
		n.Do(t, &internalv1.SetMachinePhase{MachineId: "m-1", Phase: phase})
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
	n := nodetest.New()
	_, c := serve(t, n, Config{})
	for i := range 3 {
		n.Machine(t, fmt.Sprintf("m-%d", i))
		n.Start(t, fmt.Sprintf("m-%d", i), fmt.Sprintf("run-%d", i), "")
	}
	n.Begin(t, "run-0", 1)
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
