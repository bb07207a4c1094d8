package cluster

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"
	"google.golang.org/grpc/metadata"

	"github.com/holdfast-metal/holdfast/cluster/internal/gossip"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

func TestIdentitySurvives(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	id, err := openIdentity(dir, "a")
	if err != nil {
		t.Fatal(err)
	}
	err = id.update(func(r *identityRecord) error {
		r.ClusterID, r.Admitted, r.Forming = "c", true, []founder{{ID: "a", Instance: r.Instance, RaftAddr: "x:1"}}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	again, err := openIdentity(dir, "a")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(id.get(), again.get()); diff != "" {
		t.Errorf("identity after a restart (-want +got):\n%s", diff)
	}
	boom := errors.New("boom")
	if err := again.update(func(r *identityRecord) error { r.ClusterID = "other"; return boom }); !errors.Is(err, boom) {
		t.Errorf("update: got %v, want %v", err, boom)
	}
	if got := again.get().ClusterID; got != "c" {
		t.Errorf("after a failed change: got cluster %s", got)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Errorf("files in the data directory: got %v, want only the identity", files)
	}
}

func gossiped(id, instance, cluster string, expect uint32, bootstrapped bool) gossip.Member {
	return gossip.Member{Alive: true, Meta: &internalv1.GossipMeta{
		Id: id, Instance: instance, ClusterId: cluster, BootstrapExpect: expect, Bootstrapped: bootstrapped, RaftAddr: id +
			":1",
	}}
}

// TestReplacedFounders checks that a founder that was wiped after the others had agreed prevents
// their cluster from forming.
func TestReplacedFounders(t *testing.T) {
	fs := []founder{{"a", "1", "a:1"}, {"b", "2", "b:1"}}
	a, b, wiped := gossiped("a", "1", "c", 2, false), gossiped("b", "2", "c", 2, false), gossiped("b", "9", "", 2, false)
	dead := wiped
	dead.Alive = false
	for _, tc := range []struct {
		name    string
		fs      []founder
		members []gossip.Member
		want    []string
	}{
		{"not agreed", nil, []gossip.Member{a, wiped}, nil},
		{"as agreed", fs, []gossip.Member{a, b}, nil},
		{"wiped", fs, []gossip.Member{a, wiped}, []string{"b"}},
		{"wiped and dead", fs, []gossip.Member{a, dead}, nil},
		{"missing founder", fs, []gossip.Member{wiped}, nil},
		{"wiped, and formed by another founder", fs, []gossip.Member{gossiped("a", "1", "c", 2, true), wiped}, nil},
	} {
		if diff := cmp.Diff(tc.want, replaced(tc.fs, tc.members)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

func TestFounders(t *testing.T) {
	a, b, c, d := gossiped("a", "1", "", 3, false), gossiped("b", "2", "", 3, false), gossiped("c", "3", "", 3,
		false), gossiped("d", "4", "", 3, false)
	dead := d
	dead.Alive = false
	abc := []founder{{"a", "1", "a:1"}, {"b", "2", "b:1"}, {"c", "3", "c:1"}}
	bound := gossiped("c", "3", formingID(abc), 3, false)
	first := gossiped("a", "1", formingID(abc), 3, true)
	for _, tc := range []struct {
		name    string
		self    gossip.Member
		members []gossip.Member
		want    []founder
	}{
		{"three", a, []gossip.Member{c, a, b}, abc},
		{"two", a, []gossip.Member{a, b}, nil},
		{"dead third peer", a, []gossip.Member{a, b, dead}, nil},
		{"first three of four", b, []gossip.Member{a, b, c, d}, abc},
		{"last of four joins", d, []gossip.Member{a, b, c, d}, nil},
		{"different expected number", a, []gossip.Member{a, b, gossiped("c", "3", "", 5, false)}, nil},
		{"peer of another cluster", a, []gossip.Member{a, b, c, gossiped("x", "9", "other", 3, true)}, nil},
		{"founder in another cluster", a, []gossip.Member{a, b, gossiped("c", "3", "other", 3, true)}, nil},
		{"bootstrapped peer", a, []gossip.Member{a, b, c, gossiped("x", "9", "", 3, true)}, nil},
		{"cluster without an expected number", a, []gossip.Member{a, b, c, gossiped("x", "9", "other", 0, true)}, nil},
		{"founder bound to this peer", b, []gossip.Member{a, b, bound}, abc},
		{"first peer bootstrapped", b, []gossip.Member{first, b, bound}, abc},
		{"founder bound to another instance", b, []gossip.Member{gossiped("a", "new", "", 3, false), b, bound}, nil},
		{"only joins", gossiped("a", "1", "", 0, false), []gossip.Member{gossiped("a", "1", "", 0, false), b, c}, nil},
		{"alone", gossiped("a", "1", "", 1, false), []gossip.Member{gossiped("a", "1", "", 1, false)}, abc[:1]},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, founders(tc.self.Meta, tc.members)); diff != "" {
				t.Errorf("founders (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPromise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &promise{}
		if err := p.make("one", nil); err != nil {
			t.Fatalf("first: %v", err)
		}
		if err := p.make("two", nil); err == nil {
			t.Error("second promise: got it while the first one is valid")
		}
		if _, ok := p.kept("one"); !ok {
			t.Error("repeat the promise: got a refusal")
		}
		time.Sleep(promiseTime + time.Second) // sleep: inside a synctest bubble
		if _, ok := p.kept("one"); ok {
			t.Error("promise: got it valid after its time")
		}
		if err := p.make("two", nil); err != nil {
			t.Errorf("promise after the first one has expired: %v", err)
		}
	})
}

func TestRoutes(t *testing.T) {
	var r routes
	for _, tc := range []struct {
		method string
		want   string
	}{
		{"/holdfast.v1.MachineService/GetMachine", "read"},
		{"/holdfast.v1.MachineService/RegisterMachine", "write"},
		{"/holdfast.v1.RunService/StartRun", "write"},
		{"/holdfast.v1.RunService/WatchRuns", "read"},
		{"/holdfast.v1.ClusterService/GetClusterStatus", "local"},
		{"/holdfast.internal.v1.PeerService/Leave", "none"},
		{"/holdfast.internal.v1.PeerService/Confirm", "none"},
		{"/grpc.health.v1.Health/Check", "none"},
		{"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "none"},
		{"/holdfast.v1.MachineService/NoSuchMethod", "none"},
		{"/no.such.Service/Method", "none"},
		{"nonsense", "none"},
	} {
		for range 2 { // found, and cached
			got := "none"
			if rt := r.get(tc.method); rt != nil {
				switch {
				case rt.local:
					got = "local"
				case rt.read:
					got = "read"
				default:
					got = "write"
				}
			}
			if got != tc.want {
				t.Errorf("%s: got %s, want %s", tc.method, got, tc.want)
			}
		}
	}
	start := r.get("/holdfast.v1.RunService/StartRun")
	if !start.replayable(&holdfastv1.StartRunRequest{RequestId: "x"}) {
		t.Error("request with a request id: got not replayable")
	}
	if start.replayable(&holdfastv1.StartRunRequest{}) {
		t.Error("request without a request id: got replayable")
	}
	if r.get("/holdfast.v1.MachineService/DeleteMachine").replayable(&holdfastv1.DeleteMachineRequest{MachineId: "m"}) {
		t.Error("request type without a request id: got replayable")
	}
}

func TestConsistencyOf(t *testing.T) {
	for _, tc := range []struct {
		md   metadata.MD
		want Consistency
		bad  bool
	}{
		{nil, Consistency{}, false},
		{metadata.Pairs(HeaderConsistency, "stale"), Consistency{Stale: true}, false},
		{metadata.Pairs(HeaderConsistency, "linearizable", HeaderMinIndex, "7"), Consistency{MinIndex: 7}, false},
		{metadata.Pairs(HeaderConsistency, "stale", HeaderMinIndex, "7", HeaderMinIndex, "5"),
			Consistency{Stale: true, MinIndex: 7}, false},
		{metadata.Pairs(HeaderConsistency, "eventual"), Consistency{}, true},
		{metadata.Pairs(HeaderMinIndex, "-1"), Consistency{}, true},
	} {
		got, err := consistencyOf(metadata.NewIncomingContext(t.Context(), tc.md))
		if (err != nil) != tc.bad || err == nil && got != tc.want {
			t.Errorf("%v: got %v (%v), want %v, error: %t", tc.md, got, err, tc.want, tc.bad)
		}
	}
	if got := ConsistencyFrom(WithConsistency(t.Context(), Consistency{MinIndex: 3})); got.MinIndex != 3 {
		t.Errorf("consistency in a context: got %v", got)
	}
}

func TestInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tc := range []struct{ caller, want time.Duration }{
			{0, callTimeout}, {time.Minute, time.Minute - answerMargin}, {100 * time.Millisecond, 75 * time.Millisecond},
		} {
			ctx, cancel := t.Context(), context.CancelFunc(func() {})
			if tc.caller > 0 {
				ctx, cancel = context.WithTimeout(ctx, tc.caller)
			}
			in, stop := inTime(ctx)
			deadline, _ := in.Deadline()
			if got := time.Until(deadline); got != tc.want {
				t.Errorf("caller deadline %v: got %v, want %v", tc.caller, got, tc.want)
			}
			stop()
			cancel()
		}
	})
}

func TestCommonLevel(t *testing.T) {
	servers := []raft.Server{{ID: "a"}, {ID: "b"}}
	levels := func(m map[string]uint32) func(string) (*internalv1.PeerRecord, bool) {
		return func(id string) (*internalv1.PeerRecord, bool) {
			l, ok := m[id]
			return &internalv1.PeerRecord{MaxFeatureLevel: l}, ok
		}
	}
	for _, tc := range []struct {
		known map[string]uint32
		want  uint32
	}{
		{map[string]uint32{"a": 4, "b": 5}, 4},
		{map[string]uint32{"a": 1, "b": 5}, 1},
		{map[string]uint32{"a": 9, "b": 9}, 6}, // this peer's own
		{map[string]uint32{"a": 9}, 0},
	} {
		if got := commonLevel(6, servers, levels(tc.known)); got != tc.want {
			t.Errorf("%v: got %d, want %d", tc.known, got, tc.want)
		}
	}
}

func TestMayVote(t *testing.T) {
	for _, tc := range []struct {
		applied, floor, commit uint64
		want                   bool
	}{
		{10, 10, 10, true}, {9, 10, 10, false}, {10, 10, 10 + promoteLag, true}, {10, 10, 11 + promoteLag, false}, {20, 10,
			15, true},
	} {
		if got := mayVote(tc.applied, tc.floor, tc.commit); got != tc.want {
			t.Errorf("applied %d, floor %d, commit %d: got %t, want %t", tc.applied, tc.floor, tc.commit, got, tc.want)
		}
	}
}
