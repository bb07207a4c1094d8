package fleet

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/events"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// The triggers in a history.
const (
	ByOperator = "operator"
	ByReport   = "node_report"
)

// moveNode moves the node facet, with one history entry. It resets the install counters where
// the node state machine requires it.
func moveNode(t *core.Tx, m *holdfastv1.Machine, to holdfastv1.Node_State, c Change) {
	s := m.GetStatus()
	from := s.GetNodeState()
	if from == to {
		return
	}
	for _, over := range lifecycle.NodeRoute(from, to) {
		moveNode(t, m, over, routed(c, over))
	}
	from = s.GetNodeState()
	if m.Node == nil {
		m.Node = &holdfastv1.NodeRecord{}
	}
	n := m.GetNode()
	n.StateChangedAt = t.Now
	if n.GetApprovedAt() != nil {
		n.ApprovedAt = nil
	}
	// An operator has handled the failures, so they are counted from zero again.
	if from == holdfastv1.Node_INSTALL_FAILED && !c.Pending {
		n.InstallAttempts, n.LastInstallError, n.InstallProgress = 0, "", 0
	}
	switch to {
	case holdfastv1.Node_INSTALLING:
		if !c.Pending {
			n.InstallAttempts, n.LastInstallError = 0, ""
		}
		n.InstallProgress, n.InstallStatus, n.InstallStatusAt, n.InstallRunId = 0, "", nil, ""
	case holdfastv1.Node_INSTALLED:
		n.InstallAttempts, n.LastInstallError = 0, ""
	}
	e := &holdfastv1.HistoryEntry{
		Facet: "node", From: from.String(), To: to.String(), TriggeredBy: c.By, RunId: c.Run, Comment: c.Comment,
		Metadata: c.Metadata,
	}
	if from == holdfastv1.Node_NODE_STATE_UNSPECIFIED {
		e.From = ""
	}
	if c.By == ByReport {
		// Only operators comment. The report is in the metadata, and the run has the rest.
		e.Comment = ""
	}
	events.AddHistory(t, m, e)
	s.NodeState = to
}

// routed returns the change for an intermediate state.
func routed(c Change, over holdfastv1.Node_State) Change {
	hop := Change{By: c.By, Run: c.Run, Comment: c.Comment, Pending: c.Pending}
	switch over {
	case holdfastv1.Node_REPROVISION, holdfastv1.Node_PENDING:
		hop.By, hop.Comment = ByOperator, "approved by the start of run "+c.Run
	case holdfastv1.Node_INSTALL_FAILED:
		hop.Metadata = map[string]string{"error": c.Comment}
	}
	return hop
}

// RunTrigger returns the trigger of a machine's transition when a run begins or ends: the
// run, unless a report or an operator caused it.
func RunTrigger(t *core.Tx) string {
	switch t.Command.GetOp().(type) {
	case *internalv1.Command_ReportNode:
		return ByReport
	case *internalv1.Command_TransitionNode:
		return ByOperator
	}
	return "run"
}
