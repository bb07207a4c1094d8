package fsm

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Nobody here has a hand on an install that is only observed, so that nothing but its installer's reports could end its run; and an
// installer may lose its network, or its power, for good. So they are signs of life of a lease, which ends the run when they stop. A lease,
// and not a time of day: it outlives leaders and does not believe their clocks (docs/decisions/0012).

// InstallTimeout is why a run has failed whose installer was not heard for too long.
const InstallTimeout = "InstallTimeout"

// quietSeconds is how long the installer of a run may say nothing: what its workflow gives the step that installs, or two hours.
func (t *tx) quietSeconds(run *holdfastv1.Run) int32 {
	plan, _ := t.plans.get(run.GetPlanId())
	for _, s := range plan.GetSteps() {
		if s.GetRepave() != nil && s.GetTimeoutSeconds() > 0 {
			return s.GetTimeoutSeconds()
		}
	}
	return int32(installTTL / time.Second)
}

// heardInstall takes note of a report about an observed run. The caller stores the run.
func (t *tx) heardInstall(run *holdfastv1.Run) {
	quiet := time.Duration(run.GetSteps()[0].GetTimeoutSeconds()) * time.Second
	l := t.grantLease(internalv1.LeaseRef_INSTALL, run.GetRunId(), quiet.Milliseconds())
	run.Deadline = timestamppb.New(t.now.AsTime().Add(time.Duration(l.GetTtlMs()) * time.Millisecond))
	run.NextActionAt, run.Revision = run.Deadline, t.index
}

// installSilent ends an observed run whose installer was not heard for too long.
func (t *tx) installSilent(runID string) {
	run, ok := t.runs.get(runID)
	if !ok || Ended(run) {
		return
	}
	quiet := time.Duration(run.GetSteps()[0].GetTimeoutSeconds()) * time.Second
	failure := &holdfastv1.RunError{Reason: InstallTimeout, ErrorClass: "timeout",
		Message: fmt.Sprintf("its installer has not reported for %s: look at the console of the machine, and move the node to pending to install it again", quiet)}
	if m, ok := t.machines.get(run.GetMachineId()); ok && m.GetStatus().GetActiveRunId() == runID {
		t.failObserved(m, run, failure)
	}
}
