package founding

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/cluster/internal/gossip"
	"github.com/holdfast-metal/holdfast/cluster/internal/identity"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

func gossiped(id, instance, cluster string, expect uint32, bootstrapped bool) gossip.Member {
	return gossip.Member{Alive: true, Meta: &internalv1.GossipMeta{
		Id: id, Instance: instance, ClusterId: cluster, BootstrapExpect: expect, Bootstrapped: bootstrapped, RaftAddr: id +
			":1",
	}}
}

// TestReplacedFounders checks that a founder that was wiped after the others had agreed prevents
// their cluster from forming.
func TestReplacedFounders(t *testing.T) {
	fs := []identity.Founder{{ID: "a", Instance: "1", RaftAddr: "a:1"}, {ID: "b", Instance: "2", RaftAddr: "b:1"}}
	a, b, wiped := gossiped("a", "1", "c", 2, false), gossiped("b", "2", "c", 2, false), gossiped("b", "9", "", 2, false)
	dead := wiped
	dead.Alive = false
	for _, tc := range []struct {
		name    string
		fs      []identity.Founder
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
	abc := []identity.Founder{{ID: "a", Instance: "1", RaftAddr: "a:1"}, {ID: "b", Instance: "2", RaftAddr: "b:1"},
		{ID: "c", Instance: "3", RaftAddr: "c:1"}}
	bound := gossiped("c", "3", formingID(abc), 3, false)
	first := gossiped("a", "1", formingID(abc), 3, true)
	for _, tc := range []struct {
		name    string
		self    gossip.Member
		members []gossip.Member
		want    []identity.Founder
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
