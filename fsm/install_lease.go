package fsm

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Nobody here has a hand on an install that is only observed, so that nothing but its installer's
// reports could end its run; and an installer may lose its network, or its power, for good. So they
// are heartbeats of a lease, which ends the run when they stop. A lease, and not a time of day: it
// outlives leaders and does not believe their clocks (docs/decisions/0012).

// A second lease, which nothing renews, ends the run of an installer that reports for ever and
// never comes to an end.

// InstallTimeout is why a run has failed whose installer was not heard for too long, or has not
// come to an end.
const InstallTimeout = "InstallTimeout"

// installLimit is how long all attempts of an observed install may take together, whatever is
// reported; or three times what its workflow gives the step that installs, where that is more.
const installLimit = 24 * time.Hour

// limitOf names the lease that ends an observed run in any case. No run has such an id: validName.
func limitOf(runID string) string { return runID + "/limit" }

// quietSeconds is how long the installer of a run may say nothing: what its workflow gives the step
// that installs, or two hours.
func (t *tx) quietSeconds(run *holdfastv1.Run) int32 {
	plan, _ := t.plan(run.GetPlanId())
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
	limit, ok := t.lease(internalv1.LeaseRef_INSTALL, limitOf(run.GetRunId()))
	if !ok {
		limit = t.grantLease(internalv1.LeaseRef_INSTALL, limitOf(run.GetRunId()), max(installLimit, maxInstallAttempts*quiet).Milliseconds())
	}
	ends := limit.GetGrantedAt().AsTime().Add(time.Duration(limit.GetTtlMs()) * time.Millisecond)
	if silent := t.now.AsTime().Add(time.Duration(l.GetTtlMs()) * time.Millisecond); silent.Before(ends) {
		ends = silent
	}
	run.Deadline = timestamppb.New(ends)
	run.NextActionAt, run.Revision = run.Deadline, t.index
}

// endInstallLeases ends both leases of an observed run.
func (t *tx) endInstallLeases(runID string) {
	t.endLease(internalv1.LeaseRef_INSTALL, runID)
	t.endLease(internalv1.LeaseRef_INSTALL, limitOf(runID))
}

// installOver ends an observed run one of whose leases is over.
func (t *tx) installOver(l *internalv1.Lease) {
	runID, atLimit := strings.CutSuffix(l.GetRef().GetId(), limitOf(""))
	run, ok := t.runs.get(runID)
	if !ok || Ended(run) {
		return
	}
	m, ok := t.machines.get(run.GetMachineId())
	if !ok || m.GetStatus().GetActiveRunId() != runID {
		return
	}
	what, ttl := "reported for", time.Duration(l.GetTtlMs())*time.Millisecond
	if atLimit {
		what = "finished in"
	}
	t.failObserved(m, run, &holdfastv1.RunError{Reason: InstallTimeout, ErrorClass: "timeout",
		Message: fmt.Sprintf("its installer has not %s %s: look at the console of the machine, and move the node to pending to install it again", what, ttl)})
}
