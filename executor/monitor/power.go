package monitor

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/holdfast/stepkind"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
)

// The reasons of PoweredOn.
const (
	powerObserved = "Observed" // as the first poll found it
	powerByRun    = "ByRun"    // it changed during the run in the message
	powerNotByRun = "NotByRun" // it changed, and no run has pressed a button
	notShown      = "NotShown" // the BMC answers, and does not report it
)

// powerRenewed is how often an unchanged power is committed. BMCReachable, which every poll renews,
// confirms it in between (lifecycle.Derive). The renewal only bounds how long a power counts as
// confirmed if nothing observes it.
const powerRenewed = 30 * time.Minute

// powerSeen returns the condition PoweredOn, or nil if there is nothing to record. While the power
// stays the same, so does its reason.
func (mon *term) powerSeen(m *holdfastv1.Machine, f providers.Facts) *holdfastv1.Condition {
	known := condition(m, condPoweredOn)
	if f.Power == providers.PowerUnknown {
		if known == nil || !f.BMCReachable { // a BMC that does not answer makes it unknown by itself
			return nil
		}
		return unknown(condPoweredOn, notShown)
	}
	c := &holdfastv1.Condition{Type: condPoweredOn, Status: f.Power == providers.PowerOn, Reason: powerObserved}
	switch {
	case known == nil || known.GetUnknown() && !unconfirmed(known):
	case known.GetStatus() == c.GetStatus():
		c.Reason, c.Message = known.GetReason(), known.GetMessage()
	default:
		c.Reason = powerNotByRun
		if run := pressedBy(mon.state.View(), m); run != nil {
			c.Reason = powerByRun
			c.Message = run.GetRunId() + " (" + cmp.Or(run.GetType(), run.GetPlanId()) + ")"
		}
	}
	return c
}

// unconfirmed reports whether the power is unknown only because the BMC was not seen since. The
// record then still has the last known power (lifecycle.Derive).
func unconfirmed(c *holdfastv1.Condition) bool {
	return c.GetType() == condPoweredOn && c.GetUnknown() &&
		!slices.Contains([]string{notShown, fsm.Stale}, c.GetReason())
}

// pressedBy returns the newest run of a machine if it may have pressed a power button since the
// power was last confirmed.
func pressedBy(v *fsm.View, m *holdfastv1.Machine) *holdfastv1.Run {
	for _, run := range v.MachineRuns(m.GetMachineId(), "") {
		if run.GetConcurrent() {
			continue
		}
		ended := run.GetFinishedAt()
		if ended != nil && !ended.AsTime().After(m.GetStatus().GetPowerObservedAt().AsTime()) {
			return nil
		}
		presses := slices.ContainsFunc(run.GetSteps(), func(s *holdfastv1.StepStatus) bool {
			return stepkind.Named(s.GetKind()).GetPresses()
		})
		if !presses {
			return nil
		}
		return run
	}
	return nil
}
