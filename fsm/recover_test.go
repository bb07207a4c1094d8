package fsm_test

import (
	"bytes"
	"testing"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
)

// TestRecoverCursors checks that a cursor issued by a lost peer is refused after a recovery,
// however many events follow.
func TestRecoverCursors(t *testing.T) {
	lost := fsmtest.NewPeer() // the majority
	plan(t, lost, "p", "reboot")
	for _, m := range []string{"m1", "m2", "m3"} {
		register(t, lost, m, ready)
	}
	start(t, lost, "m1", "r1", "", "p")
	survivor := fsm.New()
	if err := survivor.Restore(bytes.NewReader(snapshotBytes(t, lost.FSM))); err != nil {
		t.Fatal(err)
	}
	start(t, lost, "m2", "r2", "", "p") // only the lost majority has these
	finish(t, lost, "run-r2", succeeded)
	cursor, event := lost.View().LastRunEvent(), lost.View().LastEvent()

	before := survivor.View()
	if _, err := survivor.Recover("c2", "majority lost"); err != nil {
		t.Fatal(err)
	}
	es, err := survivor.View().RunEvents(survivor.View().LastRunEvent()-1, 10)
	if err != nil || len(es) != 1 || es[0].GetSnapshot().GetRunId() != "run-r1" {
		t.Errorf("the newest event is not that of the run that has FAILED: %v, %v", es, err)
	}
	if got, want := survivor.View().LastRunEvent()-before.LastRunEvent(), uint64(1<<32+1); got != want {
		t.Errorf("cursors of events moved by %d, want %d", got, want)
	}
	q := &fsmtest.Peer{FSM: survivor, Index: survivor.Applied(), Now: lost.Now}
	q.Lead(1002)
	for _, m := range []string{"m2", "m3"} {
		start(t, q, m, "after-"+m, "", "p")
		finish(t, q, "run-after-"+m, succeeded)
	}
	v := survivor.View()
	if es, err := v.RunEvents(cursor, 100); err == nil {
		t.Errorf("events after cursor %d of the lost peer: got %d, want OUT_OF_RANGE", cursor, len(es))
	}
	if ns, err := v.Events(event, 100); err == nil {
		t.Errorf("event after cursor %d of the lost peer: got %d, want OUT_OF_RANGE", event, len(ns))
	}
	if _, err := v.ServiceEvents(before.LastServiceEvent()+1, 100); err == nil {
		t.Error("service events after a cursor of the lost peer: want OUT_OF_RANGE")
	}
	if err := fsmtest.Check(v); err != nil {
		t.Error(err)
	}
}
