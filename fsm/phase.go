package fsm

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
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
func (t *tx) movePhase(m *holdfastv1.Machine, to holdfastv1.MachineStatus_Phase, c change) {
	s := m.GetStatus()
	if from := s.GetPhase(); from != to {
		e := &holdfastv1.HistoryEntry{
			Facet: "phase", From: from.String(), To: to.String(), TriggeredBy: c.by, RunId: c.run, Comment: c.comment,
		}
		if from == holdfastv1.MachineStatus_PHASE_UNSPECIFIED {
			e.From = ""
		}
		t.addHistory(m, e)
		s.Phase, s.PhaseChangedAt = to, t.now
	}
	node := c.node
	if node == holdfastv1.Node_NODE_STATE_UNSPECIFIED {
		node = lifecycle.NodeAt(to, s.GetNodeState())
		if t.has(Level2) && to == holdfastv1.MachineStatus_PROVISIONING && lifecycle.KeepsNode(s.GetNodeState()) {
			node = s.GetNodeState() // the run installs nothing
		}
	}
	t.moveNode(m, node, c)
}
