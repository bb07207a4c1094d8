package notes

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/leader"
	"github.com/holdfast-metal/holdfast/executor/runs"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

func TestNotes(t *testing.T) {
	l := newLab(t, fake.Config{})
	l.lead(quick())
	n := NewDevices(l, l.FSM)
	if got := n.Get("bmc/a"); got != nil {
		t.Errorf("before the first note: got %q", got)
	}
	if err := n.Put(t.Context(), "bmc/a", []byte("one")); err != nil {
		t.Fatal(err)
	}
	if err := n.PutFirst(t.Context(), "host/m", []byte("key")); err != nil {
		t.Fatal(err)
	}
	var refused *fsm.Error
	if err := n.PutFirst(t.Context(), "host/m", []byte("another")); !errors.As(err, &refused) ||
		refused.Reason != fsm.ReasonDeviceNoted {
		t.Errorf("repeat the first note: got %v, want %s", err, fsm.ReasonDeviceNoted)
	}
	if got := string(n.Get("bmc/a")) + string(n.Get("host/m")); got != "onekey" {
		t.Errorf("got note %q", got)
	}
	l.lead(quick()) // a later leader finds the note and writes its own
	if err := n.Put(t.Context(), "bmc/a", nil); err != nil || n.Get("bmc/a") != nil {
		t.Errorf("remove a note: %v, got %q", err, n.Get("bmc/a"))
	}
}

// A note that is not urgent is written at most once in 30 s per device, with its newest value.
func TestNotesArePacedAndCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, fake.Config{})
		l.lead(runs.Config{}).Stop()
		n := NewDevices(l, l.FSM)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- n.Run(ctx, leader.NewTerm(l.Epoch(), nil)) }()
		before := l.Written()
		for i := range 600 { // two BMCs change ten times per second for a minute
			for _, key := range []string{"bmc/a", "bmc/b"} {
				n.PutSoon(key, fmt.Append(nil, i))
				if got := string(n.Get(key)); got != fmt.Sprint(i) {
					t.Fatalf("note of %s: got %q, want %d, which is not recorded yet", key, got, i)
				}
			}
			time.Sleep(100 * time.Millisecond) // sleep: fake clock
		}
		if wrote := l.Written() - before; wrote < 4 || wrote > 6 {
			t.Errorf("got %d recorded notes after a minute, want two or three per device", wrote)
		}
		time.Sleep(31 * time.Second) // sleep: fake clock
		for _, key := range []string{"bmc/a", "bmc/b"} {
			if got := string(l.FSM.View().DeviceNote(key)); got != "599" {
				t.Errorf("recorded note of %s: got %q, want the last", key, got)
			}
		}
		quiet := l.Written()
		n.PutSoon("bmc/a", []byte("599"))
		time.Sleep(5 * time.Second) // sleep: fake clock
		if l.Written() != quiet {
			t.Error("got a second write of a recorded note")
		}

		n.PutSoon("bmc/a", []byte("soon"))
		if err := n.Put(t.Context(), "bmc/a", []byte("now")); err != nil ||
			string(l.FSM.View().DeviceNote("bmc/a")) != "now" {
			t.Errorf("recorded urgent note: got none: %v", err)
		}
		n.PutSoon("bmc/a", []byte("after"))
		time.Sleep(20 * time.Second) // sleep: fake clock
		if got := string(l.FSM.View().DeviceNote("bmc/a")); got != "now" {
			t.Errorf("20 s after an urgent note: got %q, want it kept", got)
		}
		l.lead(runs.Config{}).Stop() // the next leader does not know unwritten notes
		if got := string(n.Get("bmc/a")); got != "now" {
			t.Errorf("under the next leader: got %q, want the recorded note", got)
		}
		time.Sleep(time.Minute) // sleep: fake clock
		if got := string(l.FSM.View().DeviceNote("bmc/a")); got != "now" {
			t.Errorf("got %q written by an old leader", got)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
