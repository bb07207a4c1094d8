package installs

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifetime"
	"github.com/holdfast-metal/holdfast/fsm/internal/sessions"
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

// silenceLimit returns how long the installer of a run may be silent: the timeout of the
// workflow's install step, or that of the table.
func silenceLimit(t *core.Tx, run *holdfastv1.Run) int32 {
	plan, _ := t.Plans.Get(run.GetPlanId())
	for _, s := range plan.GetSteps() {
		if s.GetRepave() != nil && s.GetTimeoutSeconds() > 0 {
			return s.GetTimeoutSeconds()
		}
	}
	return int32(lifetime.Of(internalv1.LeaseRef_INSTALL).TTL / time.Second)
}

// renewInstall records a report about an observed run. The caller stores the run.
func renewInstall(t *core.Tx, run *holdfastv1.Run) {
	quiet := time.Duration(run.GetSteps()[0].GetTimeoutSeconds()) * time.Second
	l := t.GrantLease(internalv1.LeaseRef_INSTALL, run.GetRunId(), quiet.Milliseconds())
	limit, ok := t.Lease(internalv1.LeaseRef_INSTALL, sessions.LimitOf(run.GetRunId()))
	if !ok {
		limit = t.GrantLease(internalv1.LeaseRef_INSTALL, sessions.LimitOf(run.GetRunId()),
			max(lifetime.InstallLimit, lifecycle.MaxInstallAttempts*quiet).Milliseconds())
	}
	ends := limit.GetGrantedAt().AsTime().Add(time.Duration(limit.GetTtlMs()) * time.Millisecond)
	if silent := t.Now.AsTime().Add(time.Duration(l.GetTtlMs()) * time.Millisecond); silent.Before(ends) {
		ends = silent
	}
	run.Deadline = timestamppb.New(ends)
	run.NextActionAt, run.Revision = run.Deadline, t.Index
}

// InstallLeaseExpired ends an observed run after one of its leases has expired.
func InstallLeaseExpired(t *core.Tx, l *internalv1.Lease) {
	runID, atLimit := strings.CutSuffix(l.GetRef().GetId(), sessions.LimitOf(""))
	run, ok := t.Runs.Edit(runID)
	if !ok || lifecycle.Ended(run) {
		return
	}
	m, ok := t.Machines.Edit(run.GetMachineId())
	if !ok || m.GetStatus().GetActiveRunId() != runID {
		return
	}
	what, ttl := "reported for", time.Duration(l.GetTtlMs())*time.Millisecond
	if atLimit {
		what = "finished in"
	}
	failObserved(t, m, run, &holdfastv1.RunError{
		Reason:     InstallTimeout,
		ErrorClass: "timeout",
		Message: fmt.Sprintf("its installer has not %s %s: look at the console of the machine, "+
			"and move the node to pending to install it again", what, ttl),
	})
}
