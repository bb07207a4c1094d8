package fleet

import (
	"cmp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/events"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	"github.com/holdfast-metal/holdfast/fsm/internal/limits"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/fsm/internal/shallow"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// SetCondition sets a condition as a consequence of a command. It does not add a false
// condition that was never set.
func SetCondition(t *core.Tx, m *holdfastv1.Machine, kind string, status bool, reason string) {
	if c := lifecycle.Condition(m, kind); c == nil && !status {
		return // nothing to revoke
	}
	Observe(t, m, &holdfastv1.Condition{Type: kind, Status: status, Reason: reason, ObservedAt: t.Now})
}

// Observe merges an observation into a machine. The time of the last transition changes only
// if the status does. An unknown condition keeps its last known status, so that derived state
// does not flip because of a failed poll.
func Observe(t *core.Tx, m *holdfastv1.Machine, seen *holdfastv1.Condition) {
	c := lifecycle.Condition(m, seen.GetType())
	first := c == nil
	if first {
		c = &holdfastv1.Condition{Type: seen.GetType(), LastTransition: t.Now}
	}
	next := proto.CloneOf(seen)
	if next.GetUnknown() {
		next.Status, next.FreshUntil = c.GetStatus(), nil
	}
	next.LastTransition, next.UnknownSince = c.GetLastTransition(), nil
	if next.GetStatus() != c.GetStatus() {
		next.LastTransition = t.Now
	}
	if next.GetStatus() != c.GetStatus() || next.GetUnknown() != c.GetUnknown() && !first {
		events.AddHistory(t, m, &holdfastv1.HistoryEntry{
			Facet: "condition", From: lifecycle.ConditionText(c), To: lifecycle.ConditionText(next), TriggeredBy: "system",
		})
	}
	if next.GetUnknown() {
		next.UnknownSince = cmp.Or(c.GetUnknownSince(), seen.GetUnknownSince(), t.Now)
	}
	if next.GetObservedAt() == nil {
		next.ObservedAt = t.Now
	}
	putCondition(m.GetStatus(), next)
}

// putCondition inserts or replaces a condition. The list is sorted by type.
func putCondition(s *holdfastv1.MachineStatus, c *holdfastv1.Condition) {
	for i, known := range s.GetConditions() {
		if known.GetType() == c.GetType() {
			s.Conditions[i] = c
			return
		}
	}
	s.Conditions = append(s.Conditions, c)
	slices.SortFunc(s.Conditions, func(a, b *holdfastv1.Condition) int {
		return strings.Compare(a.GetType(), b.GetType())
	})
}

// ObserveConditions records the observations of the monitor. It skips deleted machines, and
// observations older than the recorded ones, because a run may have observed more since.
func ObserveConditions(t *core.Tx, c *internalv1.ObserveConditions) *refusal.Error {
	conditions := 0
	for _, seen := range c.GetMachines() {
		conditions += len(seen.GetConditions())
	}
	if conditions > limits.Observations {
		return refusal.InvalidField("machines", "have %d conditions, at most %d are allowed", conditions,
			limits.Observations)
	}
	for _, seen := range c.GetMachines() {
		m, ok := t.Machines.Get(seen.GetMachineId())
		if !ok {
			continue
		}
		m, changed := shallow.Machine(m), false
		for _, cond := range seen.GetConditions() {
			if !lifecycle.Observable(m, cond) {
				continue
			}
			setClock(t, cond)
			known := lifecycle.Condition(m, cond.GetType())
			if known == nil || lifecycle.Before(t.Now, known.GetObservedAt()) ||
				!lifecycle.Before(cond.GetObservedAt(), known.GetObservedAt()) {
				Observe(t, m, cond)
				changed = true
			}
		}
		if changed {
			PutMachine(t, m)
		}
	}
	return nil
}

// setClock converts the times of an observation from the leader's clock to the record's. Its age
// and its validity stay the same.
func setClock(t *core.Tx, c *holdfastv1.Condition) {
	if c.GetObservedAt() == nil {
		return
	}
	seen, proposed := c.GetObservedAt().AsTime(), t.Command.GetTime().AsTime()
	age := max(0, proposed.Sub(seen))
	if age > core.MaxAhead { // no poll takes that long: the leader's clock was stepped
		age = 0
	}
	at := t.Now.AsTime().Add(-age)
	if until := c.GetFreshUntil(); until != nil {
		c.FreshUntil = timestamppb.New(at.Add(until.AsTime().Sub(seen)))
	}
	c.ObservedAt = timestamppb.New(at)
}
