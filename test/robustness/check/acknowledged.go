package check

import (
	"fmt"

	"github.com/holdfast-metal/holdfast/test/robustness/check/final"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

// keptHistory is the number of entries that a machine's history keeps.
const keptHistory = 1000

// acknowledged checks that no acknowledged change is lost (docs/reliability.md). Each run
// in a response is recorded in that state or a later one, each run has ended, and each
// write of a label has its entry in the machine's history, unless that may have been dropped. The
// check linearizable covers the final values.
func acknowledged(h *workload.History, f *final.Record) []error {
	var errs []error
	recorded := map[string]workload.RunSeen{}
	for _, r := range f.Runs {
		recorded[r.GetRunId()] = workload.SeenRun(r)
		if !workload.SeenRun(r).Ended {
			errs = append(errs, fmt.Errorf("run %s of %s is %s after everything has settled", r.GetRunId(),
				r.GetMachineId(), r.GetPhase()))
		}
	}
	writes := map[string]int{}
	for _, op := range h.Ops {
		if op.Got != nil {
			now, ok := recorded[op.Got.ID]
			switch {
			case !ok:
				errs = append(errs, fmt.Errorf("run %s is lost: %s was answered with it", op.Got.ID, words(op)))
			case now.Revision < op.Got.Revision:
				errs = append(errs, fmt.Errorf("run %s is at revision %d; %s was answered with %d", op.Got.ID,
					now.Revision, words(op), op.Got.Revision))
			case op.Got.Ended && now.Phase != op.Got.Phase:
				errs = append(errs,
					fmt.Errorf("run %s has %s; %s was answered with %s", op.Got.ID, now.Phase, words(op), op.Got.Phase))
			}
		}
		if op.Kind == workload.UpdateMachine && op.Outcome == workload.OK {
			writes[op.Machine]++
		}
	}
	for _, m := range h.Machines {
		entries := map[uint64]bool{}
		labels, last := 0, uint64(0)
		for _, e := range f.History[m] {
			entries[e.GetSequence()] = true
			last = max(last, e.GetSequence())
			if e.GetFacet() == "inventory" && e.GetTo() == "labels" {
				labels++
			}
		}
		kept := min(last, keptHistory)
		whole := uint64(len(f.History[m])) == kept
		for n := last; n > last-kept; n-- {
			whole = whole && entries[n]
		}
		if !whole {
			errs = append(errs,
				fmt.Errorf("the history of %s has %d entries and ends with number %d", m, len(f.History[m]), last))
		}
		if dropped := int(last - kept); labels+dropped < writes[m] {
			errs = append(errs, fmt.Errorf("the history of %s has %d writes of labels and dropped %d entries, "+
				"%d were acknowledged", m, labels, dropped, writes[m]))
		}
	}
	return firstErrors(errs)
}
