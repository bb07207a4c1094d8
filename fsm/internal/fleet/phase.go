package fleet

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/events"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Change is the origin of a transition and the reason.
type Change struct {
	By       string // operator, run, system, node_report
	Run      string
	Comment  string
	Node     holdfastv1.Node_State // the new node state, if the phase does not imply it
	Metadata map[string]string     // of the node facet's history entry
	Pending  bool                  // the run has not begun, so the failed installs still count
}

// MovePhase moves the phase of a machine, and the node facet with it, so that the two cannot
// contradict each other (docs/concepts.md). Each change of a facet adds one history entry.
func MovePhase(t *core.Tx, m *holdfastv1.Machine, to holdfastv1.MachineStatus_Phase, c Change) {
	s := m.GetStatus()
	if from := s.GetPhase(); from != to {
		e := &holdfastv1.HistoryEntry{
			Facet: "phase", From: from.String(), To: to.String(), TriggeredBy: c.By, RunId: c.Run, Comment: c.Comment,
		}
		if from == holdfastv1.MachineStatus_PHASE_UNSPECIFIED {
			e.From = ""
		}
		events.AddHistory(t, m, e)
		s.Phase, s.PhaseChangedAt = to, t.Now
		if to == holdfastv1.MachineStatus_RETIRED {
			endAgent(t, m)
		}
	}
	node := c.Node
	if node == holdfastv1.Node_NODE_STATE_UNSPECIFIED {
		node = lifecycle.NodeAt(to, s.GetNodeState())
		if to == holdfastv1.MachineStatus_PROVISIONING && lifecycle.KeepsNode(s.GetNodeState()) {
			node = s.GetNodeState() // the run installs nothing
		}
	}
	moveNode(t, m, node, c)
}
