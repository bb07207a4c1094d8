package fsm

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// The conditions that the FSM itself sets or reads (bare-metal API §Conditions).
const (
	condProvisioned       = "Provisioned"
	condInCluster         = "InCustomerCluster"
	condDrained           = "Drained"
	condDegraded          = "Degraded"
	condNeedsIntervention = "NeedsIntervention"
	condAgentReady        = "AgentReady" // of machines with an agent: it gives heartbeats
)

// setCondition sets a condition as a consequence of a command, true or not yet known as false.
func (t *tx) setCondition(m *holdfastv1.Machine, kind string, status bool, reason string) {
	if c := condition(m, kind); c == nil && !status {
		return // nothing to take back
	}
	t.observe(m, &holdfastv1.Condition{Type: kind, Status: status, Reason: reason, ObservedAt: t.now})
}

// observe merges an observation into a machine. The time of the last transition moves only when the
// status does. That something cannot be told any more leaves the status as it was last known: what
// is computed of it must not turn round because nobody could look.
func (t *tx) observe(m *holdfastv1.Machine, seen *holdfastv1.Condition) {
	c := condition(m, seen.GetType())
	first := c == nil
	if first {
		c = &holdfastv1.Condition{Type: seen.GetType(), LastTransition: t.now}
		s := m.GetStatus()
		s.Conditions = append(s.Conditions, c)
		slices.SortFunc(s.Conditions, func(a, b *holdfastv1.Condition) int { return strings.Compare(a.GetType(), b.GetType()) })
	}
	next := proto.CloneOf(seen)
	if next.GetUnknown() {
		next.Status, next.FreshUntil = c.GetStatus(), nil
	}
	next.LastTransition, next.UnknownSince = c.GetLastTransition(), nil
	if next.GetStatus() != c.GetStatus() {
		next.LastTransition = t.now
	}
	if next.GetStatus() != c.GetStatus() || next.GetUnknown() != c.GetUnknown() && !first {
		t.addHistory(m, &holdfastv1.HistoryEntry{Facet: "condition", From: conditionText(c), To: conditionText(next), TriggeredBy: "system"})
	}
	if next.GetUnknown() {
		next.UnknownSince = firstTime(c.GetUnknownSince(), firstTime(seen.GetUnknownSince(), t.now))
	}
	if next.GetObservedAt() == nil {
		next.ObservedAt = t.now
	}
	proto.Reset(c)
	proto.Merge(c, next)
}

func conditionText(c *holdfastv1.Condition) string {
	text := c.GetType() + "=" + ConditionStatus(c)
	if c.GetReason() != "" {
		text += " (" + c.GetReason() + ")"
	}
	return text
}

// ConditionStatus returns the status of a condition as people read it: true, false or unknown.
func ConditionStatus(c *holdfastv1.Condition) string {
	switch {
	case c.GetUnknown():
		return "unknown"
	case c.GetStatus():
		return "true"
	}
	return "false"
}

// Stale is the reason of conditions that nobody has looked at in time.
const Stale = "Stale"

// expireConditions makes conditions unknown that were to be observed again by now. The clock is
// that of the record: every peer says the same.
func expireConditions(m *holdfastv1.Machine, now *timestamppb.Timestamp) {
	for _, c := range m.GetStatus().GetConditions() {
		if until := c.GetFreshUntil(); !c.GetUnknown() && until != nil && older(until, now) {
			c.Message = strings.TrimSpace("it was " + ConditionStatus(c) + " (" + c.GetReason() + ") when it was last seen")
			c.Unknown, c.UnknownSince, c.Reason = true, until, Stale
		}
	}
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
// over, and so is what is older than what is known: a run may have learned better since.
func (t *tx) observeConditions(c *internalv1.ObserveConditions) *Error {
	for _, seen := range c.GetMachines() {
		m, ok := t.machines.get(seen.GetMachineId())
		if !ok {
			continue
		}
		changed := false
		for _, cond := range seen.GetConditions() {
			if !seenFromOutside(m, cond) {
				continue
			}
			if t.has(Level2) {
				t.date(cond)
			}
			if known := condition(m, cond.GetType()); known == nil || t.has(Level2) && older(t.now, known.GetObservedAt()) || !older(cond.GetObservedAt(), known.GetObservedAt()) {
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

// date puts the times of an observation on the record's clock: its age and how long it is good come
// from the leader's.
func (t *tx) date(c *holdfastv1.Condition) {
	if c.GetObservedAt() == nil {
		return
	}
	seen, proposed := c.GetObservedAt().AsTime(), t.cmd.GetTime().AsTime()
	age := max(0, proposed.Sub(seen))
	if age > maxAhead { // no look takes as long: the clock was set meanwhile
		age = 0
	}
	at := t.now.AsTime().Add(-age)
	if until := c.GetFreshUntil(); until != nil {
		c.FreshUntil = timestamppb.New(at.Add(until.AsTime().Sub(seen)))
	}
	c.ObservedAt = timestamppb.New(at)
}

// seenFromOutside reports whether a look may set a condition. Whether a person is needed cannot be
// seen: runs and operators say it; whether an agent is there, its lease says; whether it was
// drained, the run that did it. What is on the disk is a run's business while one is at work.
func seenFromOutside(m *holdfastv1.Machine, c *holdfastv1.Condition) bool {
	switch c.GetType() {
	case "", condNeedsIntervention, condAgentReady, condDrained:
		return false
	case condProvisioned:
		return condition(m, condProvisioned) != nil && m.GetStatus().GetActiveRunId() == ""
	}
	return true
}

func older(a, b *timestamppb.Timestamp) bool { return a.AsTime().Before(b.AsTime()) }
