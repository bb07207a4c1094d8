package executor

import (
	"errors"
	"testing"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

func TestNotes(t *testing.T) {
	l := newLab(t, fake.Config{})
	l.lead(quick())
	n := NewNotes(l, l.fsm)
	if got := n.Get("bmc/a"); got != nil {
		t.Errorf("before anything was kept: %q", got)
	}
	if err := n.Put(t.Context(), "bmc/a", []byte("one")); err != nil {
		t.Fatal(err)
	}
	if err := n.PutFirst(t.Context(), "host/m", []byte("key")); err != nil {
		t.Fatal(err)
	}
	var refused *fsm.Error
	if err := n.PutFirst(t.Context(), "host/m", []byte("another")); !errors.As(err, &refused) || refused.Reason != fsm.ReasonDeviceNoted {
		t.Errorf("a second first note: %v, want %s", err, fsm.ReasonDeviceNoted)
	}
	if got := string(n.Get("bmc/a")) + string(n.Get("host/m")); got != "onekey" {
		t.Errorf("what is kept: %q", got)
	}
	l.lead(quick()) // a later leader finds it, and keeps its own
	if err := n.Put(t.Context(), "bmc/a", nil); err != nil || n.Get("bmc/a") != nil {
		t.Errorf("remove a note: %v, there is %q", err, n.Get("bmc/a"))
	}
}
