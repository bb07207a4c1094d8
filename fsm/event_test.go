package fsm_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// kept is the number of events that every peer keeps.
const kept = 65536

// kindOf words a wait.
func kindOf(w *holdfastv1.Wait) string { return w.GetKind().String() }

func TestEveryTransitionIsAnEvent(t *testing.T) {
	p := fsmtest.NewPeer()
	register(t, p, "m", ready)
	pl := planOf("plan/x", "ssh", "reboot")
	*pl.Steps[0].MaxRetries = 1
	do(t, p, &internalv1.CreatePlan{Plan: pl})
	const run = "run-request-1"
	var want []*holdfastv1.RunEvent
	step := func(message string, f func()) {
		t.Helper()
		f()
		want = append(want, &holdfastv1.RunEvent{Ts: p.View().Meta().GetNow(), Snapshot: getRun(t, p, run),
			Message: message, Cursor: uint64(len(want) + 1), Index: p.Index})
		s := want[len(want)-1].Snapshot
		s.QueuePosition = 0 // reads alone know it
		shown := proto.CloneOf(s)
		if s.GetWait() != nil {
			shown.Wait.Sentence = s.GetWait().GetKind().String()
		}
		same(t, message+", as it is shown", shown, p.View().Readable(s, kindOf))
	}
	step("run created", func() { start(t, p, "m", "request-1", "", "plan/x") })
	step("step ssh: attempt 1 begins", func() { begin(t, p, run) })
	step("", func() { // the wait has all of it
		do(t, p, &internalv1.NoteProgress{RunId: run, Step: "ssh", Attempt: 1, Wait: answer("host", "")})
	})
	step("step ssh: attempt 1 adopted by the leader of term 3", func() {
		p.Lead(3)
		do(t, p, &internalv1.BeginAttempt{RunId: run, Step: "ssh", Attempt: 1})
	})
	step("step ssh: attempt 1 failed: no answer from 10.0.0.9", func() { end(t, p, run, failed) })
	step("step ssh: attempt 2 begins", func() { begin(t, p, run) })
	step("step ssh succeeded", func() { end(t, p, run, succeeded) })
	step("step reboot: attempt 1 begins", func() { begin(t, p, run) })
	step("cancel requested", func() { do(t, p, &internalv1.CancelRun{RunId: run, Reason: "why not"}) })
	step("run canceled: canceled: why not", func() { end(t, p, run, canceled) })

	got, err := p.View().RunEvents(0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "events", want, got)

	// Resume after any of them, in pages of any size.
	for after := range uint64(len(want)) + 1 {
		for limit := 1; limit <= len(want)+1; limit++ {
			var cursors []uint64
			for at := after; ; {
				page, err := p.View().RunEvents(at, limit)
				if err != nil {
					t.Fatal(err)
				}
				if len(page) == 0 {
					break
				}
				if len(page) > limit {
					t.Fatalf("a page has %d events, want at most %d", len(page), limit)
				}
				for _, e := range page {
					cursors = append(cursors, e.GetCursor())
					at = e.GetCursor()
				}
			}
			var wantCursors []uint64
			for c := after + 1; c <= uint64(len(want)); c++ {
				wantCursors = append(wantCursors, c)
			}
			if diff := cmp.Diff(wantCursors, cursors); diff != "" {
				t.Fatalf("after %d, pages of %d (-want +got):\n%s", after, limit, diff)
			}
		}
	}
	if none, err := p.View().RunEvents(0, 0); err != nil || len(none) != 0 {
		t.Errorf("a page of none: got %v, %v", none, err)
	}
}

func gone(t *testing.T, v *fsm.View, cursor uint64) {
	t.Helper()
	_, err := v.RunEvents(cursor, 1)
	var e *fsm.Error
	if !errors.As(err, &e) || e.Code != fsm.OutOfRange || e.Reason != fsm.ReasonCursorGone {
		t.Errorf("events after %d: got %v, want CURSOR_GONE", cursor, err)
	}
}

func TestCursorsThatWereNeverGivenOut(t *testing.T) {
	p := fsmtest.NewPeer()
	if es, err := p.View().RunEvents(0, 10); err != nil || len(es) != 0 || p.View().LastRunEvent() != 0 {
		t.Errorf("no events yet: got %v, %v, last %d", es, err, p.View().LastRunEvent())
	}
	gone(t, p.View(), 1)
	gone(t, p.View(), ^uint64(0))
	register(t, p, "m", ready)
	start(t, p, "m", "request-1", "REBOOT", "")
	if es, err := p.View().RunEvents(1, 10); err != nil || len(es) != 0 {
		t.Errorf("after the last: got %v, %v", es, err)
	}
	gone(t, p.View(), 2)
	gone(t, p.View(), ^uint64(0))
}

func TestEventsAreKeptWithinBounds(t *testing.T) {
	// Applying so many is slow, so the first ones come from a snapshot.
	const before = kept - 10
	msgs := []proto.Message{&internalv1.SnapshotHeader{Format: 1,
		Meta: &internalv1.Meta{AppliedIndex: 1, FeatureLevel: 1, FirstRunEvent: 1, LastRunEvent: before}}}
	for i := uint64(1); i <= before; i++ {
		value, err := proto.Marshal(&holdfastv1.RunEvent{Cursor: i})
		if err != nil {
			t.Fatal(err)
		}
		msgs = append(msgs, &internalv1.SnapshotRecord{Table: internalv1.SnapshotRecord_RUN_EVENTS,
			Key: fmt.Sprintf("%016x", i), Value: value})
	}
	p := &fsmtest.Peer{FSM: fsm.New(), Index: 1, Now: fsmtest.NewPeer().Now}
	if err := p.Restore(bytes.NewReader(stream(t, msgs...))); err != nil {
		t.Fatal(err)
	}
	p.Lead(1)
	register(t, p, "m", ready)
	plan(t, p, "plan/x", "reboot")
	start(t, p, "m", "request-1", "", "plan/x")
	begin(t, p, "run-request-1")
	for p.View().LastRunEvent() < kept+20 {
		v := p.View()
		first := uint64(1)
		if v.LastRunEvent() > kept {
			first = v.LastRunEvent() - kept + 1
		}
		if got := v.Meta().GetFirstRunEvent(); got != first {
			t.Fatalf("at %d: first event %d, want %d", v.LastRunEvent(), got, first)
		}
		if es, err := v.RunEvents(first-1, 2); err != nil || len(es) != 2 || es[0].GetCursor() != first {
			t.Errorf("from the first event on: got %v, %v", es, err)
		}
		if first > 1 {
			gone(t, v, first-2)
			gone(t, v, 0)
		}
		do(t, p, &internalv1.NoteProgress{RunId: "run-request-1", Step: "reboot", Attempt: 1})
	}
	// All of the bound is kept, without a gap, and no more.
	if err := fsmtest.Check(p.View()); err != nil {
		t.Error(err)
	}
	n := 0
	for key := range dump(t, p).Records {
		if strings.HasPrefix(key, "RUN_EVENTS/") {
			n++
		}
	}
	if n != kept {
		t.Errorf("the state has %d events, want %d", n, kept)
	}
}
