package check

import (
	"fmt"

	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

// traffic checks that there was enough of each kind, with an answer, for the other checks to mean anything.
func traffic(h *workload.History, _ *Final) []error {
	var errs []error
	answered := 0
	for _, op := range h.Ops {
		if op.Outcome == workload.OK || op.Outcome == workload.Refused {
			answered++
		}
	}
	if answered < h.MinOps {
		errs = append(errs, fmt.Errorf("%d of %d calls were answered, want at least %d", answered, len(h.Ops), h.MinOps))
	}
	kinds := []workload.Kind{workload.StartRun, workload.CancelRun, workload.GetRun, workload.UpdateMachine, workload.GetMachine,
		workload.ListMachines, workload.CreatePlan, workload.GetPlan}
	for _, k := range kinds {
		// The rarest kinds are 3 of 100 calls: a quarter of that must have got through.
		if n, want := h.Count(k, workload.OK), max(1, h.MinOps*3/400); n < want && k != workload.CancelRun || n == 0 {
			errs = append(errs, fmt.Errorf("%d calls of %s succeeded, want at least %d", n, k, want))
		}
	}
	for _, w := range h.Watches {
		if len(w.Events) == 0 {
			errs = append(errs, fmt.Errorf("%s has seen no event", w.Name))
		}
	}
	if len(h.Tails) == 0 {
		errs = append(errs, fmt.Errorf("no log was followed"))
	}
	return errs
}
