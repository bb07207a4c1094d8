package runs

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/filter"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
	"github.com/holdfast-metal/holdfast/server/internal/request"
	"github.com/holdfast-metal/holdfast/server/internal/watch"
)

// model computes the events that a watcher must get, by checking every event.
type model struct {
	filter *filter.Filter
	after  map[string]bool // run → it matches after its last event
}

func newModel(f *filter.Filter) *model { return &model{filter: f, after: map[string]bool{}} }

// wants processes the next event.
func (m *model) wants(e *holdfastv1.RunEvent) bool {
	id := e.GetSnapshot().GetRunId()
	before := m.after[id]
	m.after[id] = m.filter.Match(e.GetSnapshot())
	return before || m.after[id]
}

// randomChange makes a transition of some run, or starts one.
func randomChange(t *testing.T, rt *rapid.T, n *nodetest.Node) {
	machine := fmt.Sprintf("m-%d", rapid.IntRange(0, 3).Draw(rt, "machine"))
	m, _ := n.Peer.View().Machine(machine)
	id := m.GetStatus().GetActiveRunId()
	if id == "" {
		n.Start(t, machine, fmt.Sprintf("run-%03d", n.Peer.Index), "")
		return
	}
	run, _ := n.Peer.View().Run(id)
	switch kind := rapid.IntRange(0, 3).Draw(rt, "change"); {
	case kind == 0:
		n.Do(t, &internalv1.CancelRun{RunId: id})
	case run.GetPhase() == holdfastv1.Run_PENDING:
		n.Begin(t, id, 1)
	case kind == 1:
		n.Do(t, &internalv1.NoteProgress{RunId: id, Step: run.GetCurrentStep(), Attempt: 1,
			Wait: &holdfastv1.Wait{Kind: holdfastv1.Wait_ANSWER, Subject: fmt.Sprint(n.Peer.Index)}})
	case kind == 2:
		n.End(t, id, 1, holdfastv1.Attempt_SUCCEEDED)
	default:
		n.End(t, id, 1, holdfastv1.Attempt_FAILED)
	}
}

// TestWatchResume interrupts a watch at a random event. The events before and after the
// interruption must be the current state, and then every transition of matching runs, in
// order and exactly once. After the interruption there may be one more transition per
// run: one with which the run could have stopped matching.
func TestWatchResume(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := nodetest.New()
		for i := range 4 {
			n.Machine(t, fmt.Sprintf("m-%d", i))
		}
		text := rapid.SampledFrom([]string{
			"", "machine_id=m-1", "phase=RUNNING", "NOT phase=RUNNING", "machine_id=m-1 AND phase=PENDING",
			"phase=FAILED OR machine_id=m-2", "finished_at:*", "run_id=run-010",
		}).Draw(rt, "filter")
		f, err := request.Filter(runFilter, text)
		if err != nil {
			rt.Fatal(err)
		}
		change := func(label string) {
			for range rapid.IntRange(0, 12).Draw(rt, label) {
				randomChange(t, rt, n)
			}
		}

		// The first stream: current state, then some batches of events.
		change("before")
		v := n.Peer.View()
		mod := newModel(f)
		for _, e := range allEvents(t, v) {
			mod.wants(e)
		}
		var got []*holdfastv1.RunEvent
		w := &runWatch{filter: f, matches: watch.NewMatches(f, false), send: func(e *holdfastv1.RunEvent) error {
			got = append(got, e)
			return nil
		}}
		if err := w.current(v); err != nil {
			rt.Fatal(err)
		}
		checkCurrent(rt, v, f, got)
		got = nil
		tl := newEventHub(n.Peer, nil)
		change("followed")
		cut := v.LastRunEvent()
		for rapid.Bool().Draw(rt, "read on") {
			if _, err := w.next(tl); err != nil {
				rt.Fatal(err)
			}
			cut = w.cursor
			change("followed")
		}
		// The stream is interrupted: the client has the cursor of the last event sent to
		// it.
		known := v.LastRunEvent()
		for _, e := range got {
			known = e.GetCursor()
		}

		// The second stream, on another peer, resumes from there.
		extra := map[string]bool{}
		broken := len(got)
		w = &runWatch{filter: f, matches: watch.NewMatches(f, true), send: w.send, cursor: known}
		tl = newEventHub(n.Peer, nil)
		for more := true; more; {
			if more, err = w.next(tl); err != nil {
				rt.Fatal(err)
			}
			if rapid.IntRange(0, 4).Draw(rt, "go on") == 0 {
				randomChange(t, rt, n)
				more = true
			}
		}

		at, seen := 0, map[string]bool{}
		for _, e := range allEvents(t, n.Peer.View())[v.LastRunEvent():] {
			wanted := mod.wants(e)
			sent := at < len(got) && got[at].GetCursor() == e.GetCursor()
			id := e.GetSnapshot().GetRunId()
			switch {
			case wanted && !sent:
				rt.Fatalf("%q: event %d of %s was not sent (broke at %d, cut at %d)", text, e.GetCursor(), id, known, cut)
			case !wanted && sent:
				if at < broken || seen[id] || extra[id] || f.Fixed() || !f.Possible(e.GetSnapshot()) {
					rt.Fatalf("%q: event %d of %s was sent for nothing", text, e.GetCursor(), id)
				}
				extra[id] = true
			}
			if e.GetCursor() > known {
				seen[id] = true
			}
			if sent {
				at++
			}
		}
		if at != len(got) {
			rt.Fatalf("%q: %d events were sent out of order or twice", text, len(got)-at)
		}
	})
}

// checkCurrent checks the current state: all matching runs, oldest first, and only the
// last one with a cursor.
func checkCurrent(rt *rapid.T, v *fsm.View, f *filter.Filter, got []*holdfastv1.RunEvent) {
	at := 0
	for run := range v.RunsByAge() {
		if !f.Match(run) {
			continue
		}
		if at == len(got) || got[at].GetSnapshot().GetRunId() != run.GetRunId() ||
			got[at].GetSnapshot().GetRevision() != run.GetRevision() {
			rt.Fatalf("%s is not sent in its place", run.GetRunId())
		}
		want := uint64(0)
		if at == len(got)-1 {
			want = v.LastRunEvent()
		}
		if got[at].GetCursor() != want || got[at].GetTs() == nil {
			rt.Fatalf("event %d of %d of the current state is %v", at, len(got), got[at])
		}
		at++
	}
	if at != len(got) {
		rt.Fatalf("%d runs too many", len(got)-at)
	}
}
