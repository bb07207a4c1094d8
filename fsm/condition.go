package fsm

import (
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// The conditions that the FSM itself sets or reads (bare-metal API §Conditions).
const (
	condProvisioned       = "Provisioned"
	condInCluster         = "InCustomerCluster"
	condDegraded          = "Degraded"
	condNeedsIntervention = "NeedsIntervention"
	condAgentReady        = "AgentReady" // of machines with an agent: it gives signs of life
)

// setCondition sets a condition as a consequence of a command, true or not yet known as false.
func (t *tx) setCondition(m *holdfastv1.Machine, kind string, status bool, reason string) {
	if c := condition(m, kind); c == nil && !status {
		return // nothing to take back
	}
	t.observe(m, &holdfastv1.Condition{Type: kind, Status: status, Reason: reason, ObservedAt: t.now})
}

// observe merges an observation into a machine. The time of the last transition moves only when
// the status does.
func (t *tx) observe(m *holdfastv1.Machine, seen *holdfastv1.Condition) {
	c := condition(m, seen.GetType())
	if c == nil {
		c = &holdfastv1.Condition{Type: seen.GetType(), LastTransition: t.now}
		s := m.GetStatus()
		s.Conditions = append(s.Conditions, c)
		slices.SortFunc(s.Conditions, func(a, b *holdfastv1.Condition) int {
			if a.GetType() < b.GetType() {
				return -1
			}
			return 1
		})
	}
	if c.GetStatus() != seen.GetStatus() {
		t.addHistory(m, &holdfastv1.HistoryEntry{Facet: "condition", From: conditionText(c), To: conditionText(seen), TriggeredBy: "system"})
		c.LastTransition = t.now
	}
	c.Status, c.Reason, c.ObservedAt = seen.GetStatus(), seen.GetReason(), seen.GetObservedAt()
	if c.ObservedAt == nil {
		c.ObservedAt = t.now
	}
}

func conditionText(c *holdfastv1.Condition) string {
	text := c.GetType() + "=false"
	if c.GetStatus() {
		text = c.GetType() + "=true"
	}
	if c.GetReason() != "" {
		text += " (" + c.GetReason() + ")"
	}
	return text
}

func condition(m *holdfastv1.Machine, kind string) *holdfastv1.Condition {
	for _, c := range m.GetStatus().GetConditions() {
		if c.GetType() == kind {
			return c
		}
	}
	return nil
}

// observeConditions takes what the reconciler saw. Machines that were deleted meanwhile are passed
// over, and so is what is older than what is known: a run may have learned better since. Whether a
// person is needed cannot be seen: runs and operators say it; whether an agent is there, its lease says.
func (t *tx) observeConditions(c *internalv1.ObserveConditions) *Error {
	for _, seen := range c.GetMachines() {
		m, ok := t.machines.get(seen.GetMachineId())
		if !ok {
			continue
		}
		changed := false
		for _, cond := range seen.GetConditions() {
			if cond.GetType() == "" || cond.GetType() == condNeedsIntervention || cond.GetType() == condAgentReady {
				continue
			}
			if known := condition(m, cond.GetType()); known == nil || !older(cond.GetObservedAt(), known.GetObservedAt()) {
				t.observe(m, cond)
				changed = true
			}
		}
		if changed {
			t.putMachine(m)
		}
	}
	return nil
}

func older(a, b *timestamppb.Timestamp) bool { return a.AsTime().Before(b.AsTime()) }
