package check

import (
	"fmt"

	"github.com/holdfast-metal/holdfast/test/robustness/check/final"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

// watches checks each watcher: every cursor once, in order and without gaps, from any peers
// (docs/concepts.md); the same events as the others; runs that only move forward; and at
// the end the recorded state.
func watches(h *workload.History, f *final.Record) []error {
	var errs []error
	first := map[uint64]workload.Event{} // by cursor: the event of the first watcher that saw it
	for _, w := range h.Watches {
		for _, t := range w.Trouble {
			errs = append(errs, fmt.Errorf("%s: %s", w.Name, t))
		}
		last := map[string]workload.Event{}
		cursor := uint64(0)
		for i, e := range w.Events {
			switch {
			case e.Current:
				if i > 0 && !w.Events[i-1].Current {
					errs = append(errs,
						fmt.Errorf("%s was given the current state again after cursor %d", w.Name, cursor))
				}
			case e.Cursor != cursor+1:
				errs = append(errs,
					fmt.Errorf("%s was given cursor %d after %d: %s", w.Name, e.Cursor, cursor, e.Message))
			default:
				if o, ok := first[e.Cursor]; !ok {
					first[e.Cursor] = e
				} else if o != e {
					errs = append(errs,
						fmt.Errorf("%s saw at cursor %d %+v, another watcher %+v", w.Name, e.Cursor, e, o))
				}
			}
			if e.Cursor != 0 {
				cursor = e.Cursor
			}
			if before, ok := last[e.Run.ID]; ok {
				if before.Run.Ended || rank(before.Run.Phase) > rank(e.Run.Phase) || before.Index > e.Index {
					errs = append(errs, fmt.Errorf("%s: run %s went from %s (index %d) to %s (index %d) at cursor %d",
						w.Name, e.Run.ID, before.Run.Phase, before.Index, e.Run.Phase, e.Index, e.Cursor))
				}
			}
			last[e.Run.ID] = e
		}
		for _, r := range f.Runs {
			e, ok := last[r.GetRunId()]
			if !ok || e.Run.Phase != r.GetPhase().String() {
				errs = append(errs, fmt.Errorf("%s last saw run %s %s; its recorded phase is %s",
					w.Name, r.GetRunId(), e.Run.Phase, r.GetPhase()))
			}
		}
	}
	return firstErrors(errs)
}

// rank orders the phases of a run.
func rank(phase string) int {
	switch phase {
	case "PENDING":
		return 1
	case "RUNNING":
		return 2
	}
	return 3
}
