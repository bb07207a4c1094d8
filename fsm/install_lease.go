package fsm

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// The executor does not drive an observed install, so only its installer's reports could end
// the run, and an installer may lose its network or power permanently. Reports therefore
// renew a lease, which ends the run when they stop. A lease outlives leaders and does not
// depend on their clocks (docs/decisions/0012).

// A second lease, which is never renewed, ends the run of an installer that reports without
// ever finishing.

// InstallTimeout is the failure reason of a run whose installer was silent for too long or
// has not finished in time.
const InstallTimeout = "InstallTimeout"

// installLimit bounds all attempts of an observed install together, whatever it reports. If
// three times the timeout of the workflow's install step is longer, that applies.
const installLimit = 24 * time.Hour

// limitOf returns the id of the lease that bounds an observed run. No run has such an id: see
// lex.ValidName.
func limitOf(runID string) string { return runID + "/limit" }

// quietSeconds returns how long the installer of a run may be silent: the timeout of the
// workflow's install step, or two hours.
func (t *tx) quietSeconds(run *holdfastv1.Run) int32 {
	plan, _ := t.plan(run.GetPlanId())
	for _, s := range plan.GetSteps() {
		if s.GetRepave() != nil && s.GetTimeoutSeconds() > 0 {
			return s.GetTimeoutSeconds()
		}
	}
	return int32(installTTL / time.Second)
}

// heardInstall records a report about an observed run. The caller stores the run.
func (t *tx) heardInstall(run *holdfastv1.Run) {
	quiet := time.Duration(run.GetSteps()[0].GetTimeoutSeconds()) * time.Second
	l := t.grantLease(internalv1.LeaseRef_INSTALL, run.GetRunId(), quiet.Milliseconds())
	limit, ok := t.lease(internalv1.LeaseRef_INSTALL, limitOf(run.GetRunId()))
	if !ok {
		limit = t.grantLease(internalv1.LeaseRef_INSTALL, limitOf(run.GetRunId()),
			max(installLimit, lifecycle.MaxInstallAttempts*quiet).Milliseconds())
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

// installOver ends an observed run after one of its leases has expired.
func (t *tx) installOver(l *internalv1.Lease) {
	runID, atLimit := strings.CutSuffix(l.GetRef().GetId(), limitOf(""))
	run, ok := t.runs.Get(runID)
	if !ok || lifecycle.Ended(run) {
		return
	}
	m, ok := t.machines.Get(run.GetMachineId())
	if !ok || m.GetStatus().GetActiveRunId() != runID {
		return
	}
	what, ttl := "reported for", time.Duration(l.GetTtlMs())*time.Millisecond
	if atLimit {
		what = "finished in"
	}
	t.failObserved(m, run, &holdfastv1.RunError{
		Reason:     InstallTimeout,
		ErrorClass: "timeout",
		Message: fmt.Sprintf("its installer has not %s %s: look at the console of the machine, "+
			"and move the node to pending to install it again", what, ttl),
	})
}
