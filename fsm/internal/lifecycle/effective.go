package lifecycle

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm/internal/shallow"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Derive returns a copy of a machine with the fields that are computed on read
// (docs/concepts.md), at a time of the record's clock. All other parts are shared.
func Derive(m *holdfastv1.Machine, now *timestamppb.Timestamp) *holdfastv1.Machine {
	m = shallow.Top(m)
	s := m.GetStatus()
	s.Conditions = expired(s.GetConditions(), now)
	s.EffectiveState = effectiveState(m)
	s.Banners = nil
	for _, kind := range []string{NeedsIntervention, Degraded} {
		if c := Condition(m, kind); c.GetStatus() {
			s.Banners = append(s.Banners, banner(c))
		}
	}
	s.Power, s.PowerObservedAt = power(m)
	s.Conditions = withoutBMC(s.GetConditions())
	s.Issues = issues(m)
	s.NeedsAttention = len(s.Issues) > 0
	return m
}

// effectiveState returns the first that applies: an active run, a phase set by operators,
// membership in a cluster, FACTORY_READY, READY.
func effectiveState(m *holdfastv1.Machine) holdfastv1.EffectiveState_Value {
	s := m.GetStatus()
	if s.GetActiveRunId() != "" {
		return holdfastv1.EffectiveState_PROVISIONING
	}
	return IdleState(s.GetPhase(), Condition(m, InCluster).GetStatus())
}

// IdleState returns the effective state of a machine without an active run.
func IdleState(phase holdfastv1.MachineStatus_Phase, inCluster bool) holdfastv1.EffectiveState_Value {
	switch {
	case phase == holdfastv1.MachineStatus_RMA:
		return holdfastv1.EffectiveState_RMA
	case phase == holdfastv1.MachineStatus_RETIRED:
		return holdfastv1.EffectiveState_RETIRED
	case phase == holdfastv1.MachineStatus_MAINTENANCE:
		return holdfastv1.EffectiveState_MAINTENANCE
	case inCluster:
		return holdfastv1.EffectiveState_IN_SERVICE
	case phase == holdfastv1.MachineStatus_FACTORY_READY:
		return holdfastv1.EffectiveState_FACTORY_READY
	}
	return holdfastv1.EffectiveState_READY
}

func banner(c *holdfastv1.Condition) string {
	text := c.GetType()
	for _, more := range []string{c.GetReason(), c.GetMessage()} {
		if more != "" {
			text += ": " + more
		}
	}
	return text
}
