package events

import (
	"testing"

	"github.com/holdfast-metal/holdfast/internal/filter"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
	"github.com/holdfast-metal/holdfast/server/internal/request"
)

// A stream without matching events still sends its cursor, so that its client can resume.
func TestWatchEventsBookmarks(t *testing.T) {
	n := nodetest.New()
	n.Machine(t, "m-1")
	n.Machine(t, "m-2")
	var got []*holdfastv1.Event
	w := &eventWatch{sees: func(*holdfastv1.Event) bool { return false }, cursor: 1,
		send: func(e *holdfastv1.Event) error {
			got = append(got, e)
			return nil
		}}
	var err error
	if w.filter, err = request.Filter(filter.EventSchema, ""); err != nil {
		t.Fatal(err)
	}
	if err := w.follow(n.Peer.View()); err != nil { // no cursor was ever sent
		t.Fatal(err)
	}
	if last := n.Peer.View().LastEvent(); len(got) != 1 || got[0].GetCursor() != last || got[0].GetType() != "" {
		t.Errorf("got %v, want one bookmark at %d", got, last)
	}
}

func TestEventsOfPools(t *testing.T) {
	n := nodetest.New()
	n.Do(t, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m-a",
		Spec: &holdfastv1.MachineSpec{Pool: "a"}}})
	n.Do(t, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m-b",
		Spec: &holdfastv1.MachineSpec{Pool: "b"}}})
	a := &holdfastv1.Identity{Principal: "ann", Role: holdfastv1.Role_VIEWER, Pools: []string{"a"}}
	for _, tt := range []struct {
		name string
		who  *holdfastv1.Identity
		e    *holdfastv1.Event
		want bool
	}{
		{"of the pool", a, &holdfastv1.Event{MachineId: "m-a", Change: &holdfastv1.HistoryEntry{Pool: "a"}}, true},
		{"of the pool's run", a, &holdfastv1.Event{MachineId: "m-a",
			Run: &holdfastv1.Run{MachineId: "m-a", Pool: "a"}}, true},
		{"of a former owner", a, &holdfastv1.Event{MachineId: "m-a", Change: &holdfastv1.HistoryEntry{Pool: "b"}}, false},
		{"of a former owner's run", a, &holdfastv1.Event{MachineId: "m-a",
			Run: &holdfastv1.Run{MachineId: "m-a", Pool: "b"}}, false},
		{"of another pool", a, &holdfastv1.Event{MachineId: "m-b"}, false},
		{"of a machine that is gone", a, &holdfastv1.Event{MachineId: "m-c"}, false},
		{"of a service", a, &holdfastv1.Event{Service: &holdfastv1.Service{}}, false},
		{"to a caller without a scope", &holdfastv1.Identity{Role: holdfastv1.Role_VIEWER},
			&holdfastv1.Event{MachineId: "m-c"}, true},
	} {
		if got := seesEvents(tt.who, n.Peer.View)(tt.e); got != tt.want {
			t.Errorf("%s: got %t, want %t", tt.name, got, tt.want)
		}
	}
}
