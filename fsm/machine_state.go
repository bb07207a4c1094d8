package fsm

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/events"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// change is the origin of a transition and the reason.
type change struct {
	by       string // operator, run, system, node_report
	run      string
	comment  string
	node     holdfastv1.Node_State // the new node state, if the phase does not imply it
	metadata map[string]string     // of the node facet's history entry
}

// movePhase moves the phase of a machine, and the node facet with it, so that the two cannot
// contradict each other (docs/concepts.md). Each change of a facet adds one history entry.
func movePhase(t *core.Tx, m *holdfastv1.Machine, to holdfastv1.MachineStatus_Phase, c change) {
	s := m.GetStatus()
	if from := s.GetPhase(); from != to {
		e := &holdfastv1.HistoryEntry{
			Facet: "phase", From: from.String(), To: to.String(), TriggeredBy: c.by, RunId: c.run, Comment: c.comment,
		}
		if from == holdfastv1.MachineStatus_PHASE_UNSPECIFIED {
			e.From = ""
		}
		events.AddHistory(t, m, e)
		s.Phase, s.PhaseChangedAt = to, t.Now
	}
	node := c.node
	if node == holdfastv1.Node_NODE_STATE_UNSPECIFIED {
		node = lifecycle.NodeAt(to, s.GetNodeState())
		if t.Has(core.Level2) && to == holdfastv1.MachineStatus_PROVISIONING && lifecycle.KeepsNode(s.GetNodeState()) {
			node = s.GetNodeState() // the run installs nothing
		}
	}
	moveNode(t, m, node, c)
}

// setCondition sets a condition as a consequence of a command. It does not add a false
// condition that was never set.
func setCondition(t *core.Tx, m *holdfastv1.Machine, kind string, status bool, reason string) {
	if c := lifecycle.Condition(m, kind); c == nil && !status {
		return // nothing to revoke
	}
	observe(t, m, &holdfastv1.Condition{Type: kind, Status: status, Reason: reason, ObservedAt: t.Now})
}

// observe merges an observation into a machine. The time of the last transition changes only
// if the status does. An unknown condition keeps its last known status, so that derived state
// does not flip because of a failed poll.
func observe(t *core.Tx, m *holdfastv1.Machine, seen *holdfastv1.Condition) {
	c := lifecycle.Condition(m, seen.GetType())
	first := c == nil
	if first {
		c = &holdfastv1.Condition{Type: seen.GetType(), LastTransition: t.Now}
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
		next.LastTransition = t.Now
	}
	if next.GetStatus() != c.GetStatus() || next.GetUnknown() != c.GetUnknown() && !first {
		events.AddHistory(t, m, &holdfastv1.HistoryEntry{
			Facet: "condition", From: lifecycle.ConditionText(c), To: lifecycle.ConditionText(next), TriggeredBy: "system",
		})
	}
	if next.GetUnknown() {
		next.UnknownSince = firstTime(c.GetUnknownSince(), firstTime(seen.GetUnknownSince(), t.Now))
	}
	if next.GetObservedAt() == nil {
		next.ObservedAt = t.Now
	}
	proto.Reset(c)
	proto.Merge(c, next)
}

// observeConditions records the observations of the monitor. It skips deleted machines, and
// observations older than the recorded ones, because a run may have observed more since.
func observeConditions(t *core.Tx, c *internalv1.ObserveConditions) *Error {
	for _, seen := range c.GetMachines() {
		m, ok := t.Machines.Get(seen.GetMachineId())
		if !ok {
			continue
		}
		changed := false
		for _, cond := range seen.GetConditions() {
			if !lifecycle.Observable(m, cond) {
				continue
			}
			if t.Has(core.Level2) {
				date(t, cond)
			}
			known := lifecycle.Condition(m, cond.GetType())
			if known == nil || t.Has(core.Level2) && lifecycle.Before(t.Now, known.GetObservedAt()) ||
				!lifecycle.Before(cond.GetObservedAt(), known.GetObservedAt()) {
				observe(t, m, cond)
				changed = true
			}
		}
		if changed {
			putMachine(t, m)
		}
	}
	return nil
}

// date converts the times of an observation from the leader's clock to the record's. Its age
// and its validity stay the same.
func date(t *core.Tx, c *holdfastv1.Condition) {
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
