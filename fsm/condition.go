package fsm

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// setCondition sets a condition as a consequence of a command. It does not add a false
// condition that was never set.
func (t *tx) setCondition(m *holdfastv1.Machine, kind string, status bool, reason string) {
	if c := lifecycle.Condition(m, kind); c == nil && !status {
		return // nothing to revoke
	}
	t.observe(m, &holdfastv1.Condition{Type: kind, Status: status, Reason: reason, ObservedAt: t.now})
}

// observe merges an observation into a machine. The time of the last transition changes only
// if the status does. An unknown condition keeps its last known status, so that derived state
// does not flip because of a failed poll.
func (t *tx) observe(m *holdfastv1.Machine, seen *holdfastv1.Condition) {
	c := lifecycle.Condition(m, seen.GetType())
	first := c == nil
	if first {
		c = &holdfastv1.Condition{Type: seen.GetType(), LastTransition: t.now}
		s := m.GetStatus()
		s.Conditions = append(s.Conditions, c)
		slices.SortFunc(s.Conditions, func(a, b *holdfastv1.Condition) int {
			return strings.Compare(a.GetType(), b.GetType())
		})
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
		t.addHistory(m, &holdfastv1.HistoryEntry{
			Facet: "condition", From: lifecycle.ConditionText(c), To: lifecycle.ConditionText(next), TriggeredBy: "system",
		})
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

// observeConditions records the observations of the monitor. It skips deleted machines, and
// observations older than the recorded ones, because a run may have observed more since.
func (t *tx) observeConditions(c *internalv1.ObserveConditions) *Error {
	for _, seen := range c.GetMachines() {
		m, ok := t.machines.Get(seen.GetMachineId())
		if !ok {
			continue
		}
		changed := false
		for _, cond := range seen.GetConditions() {
			if !lifecycle.Observable(m, cond) {
				continue
			}
			if t.has(Level2) {
				t.date(cond)
			}
			known := lifecycle.Condition(m, cond.GetType())
			if known == nil || t.has(Level2) && lifecycle.Before(t.now, known.GetObservedAt()) ||
				!lifecycle.Before(cond.GetObservedAt(), known.GetObservedAt()) {
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

// date converts the times of an observation from the leader's clock to the record's. Its age
// and its validity stay the same.
func (t *tx) date(c *holdfastv1.Condition) {
	if c.GetObservedAt() == nil {
		return
	}
	seen, proposed := c.GetObservedAt().AsTime(), t.cmd.GetTime().AsTime()
	age := max(0, proposed.Sub(seen))
	if age > maxAhead { // no poll takes that long: the leader's clock was stepped
		age = 0
	}
	at := t.now.AsTime().Add(-age)
	if until := c.GetFreshUntil(); until != nil {
		c.FreshUntil = timestamppb.New(at.Add(until.AsTime().Sub(seen)))
	}
	c.ObservedAt = timestamppb.New(at)
}
