package check

import (
	"fmt"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/robustness/check/final"
	"github.com/holdfast-metal/holdfast/test/robustness/site"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

// settled checks that each machine behind a BMC is in the state that its last successful
// attempt left, and that BMCs were used at all.
func settled(h *workload.History, f *final.Record) []error {
	if h.Real == nil {
		return nil
	}
	var errs []error
	for i, id := range h.Real.BMCs {
		tries := triesOf(f.Runs, id)
		if len(tries) == 0 {
			errs = append(errs, fmt.Errorf("no recorded attempt has pressed a button of %s", id))
			continue
		}
		last := tries[len(tries)-1]
		if last.attempt.GetOutcome() != holdfastv1.Attempt_SUCCEEDED {
			continue // the resulting state is unknown
		}
		if want, on := last.action != "off", f.SeenOf(i).On[site.System]; on != want {
			errs = append(errs, fmt.Errorf("machine %s is on: %t; run %s of %s has succeeded last", id, on,
				last.run.GetRunId(), last.run.GetPlanId()))
		}
	}
	return firstErrors(errs)
}

// sessions checks that no session is left on an unused BMC: neither one of an earlier
// leader, nor one whose login was never answered.
func sessions(h *workload.History, f *final.Record) []error {
	if h.Real == nil {
		return nil
	}
	var errs []error
	for i, open := range f.Sessions {
		if len(open) > 0 {
			errs = append(errs,
				fmt.Errorf("sessions are left on the BMC of %s, %s after its last use: %q; it had %d logins",
					h.Real.BMCs[i], final.SessionsTime, open, f.SeenOf(i).Logins))
		}
	}
	return firstErrors(errs)
}
