package fsm

import (
	"fmt"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/events"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// moveNode moves the node facet, with one history entry. It resets the install counters where
// the node state machine requires it.
func moveNode(t *core.Tx, m *holdfastv1.Machine, to holdfastv1.Node_State, c change) {
	s := m.GetStatus()
	from := s.GetNodeState()
	if from == to {
		return
	}
	if t.Has(core.Level2) {
		for _, over := range lifecycle.NodeRoute(from, to) {
			moveNode(t, m, over, routed(c, over))
		}
		from = s.GetNodeState()
	}
	if m.Node == nil {
		m.Node = &holdfastv1.NodeRecord{}
	}
	n := m.GetNode()
	n.StateChangedAt = t.Now
	if n.GetApprovedAt() != nil {
		n.ApprovedAt = nil
	}
	// An operator has handled the failures, so they are counted from zero again.
	if t.Has(core.Level2) && from == holdfastv1.Node_INSTALL_FAILED {
		n.InstallAttempts, n.LastInstallError = 0, ""
	}
	switch to {
	case holdfastv1.Node_INSTALLING:
		n.InstallAttempts, n.LastInstallError, n.InstallProgress = 0, "", 0
		n.InstallStatus, n.InstallStatusAt, n.InstallRunId = "", nil, ""
	case holdfastv1.Node_INSTALLED:
		n.InstallAttempts, n.LastInstallError = 0, ""
	}
	e := &holdfastv1.HistoryEntry{
		Facet: "node", From: from.String(), To: to.String(), TriggeredBy: c.by, RunId: c.run, Comment: c.comment,
		Metadata: c.metadata,
	}
	if from == holdfastv1.Node_NODE_STATE_UNSPECIFIED {
		e.From = ""
	}
	if c.by == byReport {
		// Only operators comment. The report is in the metadata, and the run has the rest.
		e.Comment = ""
	}
	events.AddHistory(t, m, e)
	s.NodeState = to
}

// routed returns the change for an intermediate state.
func routed(c change, over holdfastv1.Node_State) change {
	hop := change{by: c.by, run: c.run, comment: c.comment}
	switch over {
	case holdfastv1.Node_REPROVISION, holdfastv1.Node_PENDING:
		hop.by, hop.comment = byOperator, "approved by the start of run "+c.run
	case holdfastv1.Node_INSTALL_FAILED:
		hop.metadata = map[string]string{"error": c.comment}
	}
	return hop
}

// nodeAfterLook returns the node state to restore after a run that leaves its machine
// unchanged. A failed install still waits for an operator after an inspection. For all other
// nodes the phase decides.
func nodeAfterLook(t *core.Tx, m *holdfastv1.Machine, run *holdfastv1.Run) holdfastv1.Node_State {
	if run.GetMachinePhaseBefore() != holdfastv1.MachineStatus_MAINTENANCE ||
		m.GetStatus().GetNodeState() != holdfastv1.Node_PENDING {
		return holdfastv1.Node_NODE_STATE_UNSPECIFIED
	}
	for e := range t.History.Descend(m.GetMachineId()+"/", schema.HistoryKey(m.GetMachineId(), ^uint64(0))) {
		switch {
		case e.GetAt().AsTime().Before(run.GetCreatedAt().AsTime()):
			return holdfastv1.Node_NODE_STATE_UNSPECIFIED
		case e.GetFacet() == "node" && e.GetRunId() == run.GetRunId() &&
			e.GetFrom() == holdfastv1.Node_INSTALL_FAILED.String():
			return holdfastv1.Node_INSTALL_FAILED
		}
	}
	return holdfastv1.Node_NODE_STATE_UNSPECIFIED
}

// ReasonRunObserved is the reason for refusing executor commands for an observed run.
const ReasonRunObserved = "RUN_OBSERVED"

// runTrigger returns the trigger of a machine's transition when a run begins or ends: the
// run, unless a report or an operator caused it.
func runTrigger(t *core.Tx) string {
	switch t.Command.GetOp().(type) {
	case *internalv1.Command_ReportNode:
		return byReport
	case *internalv1.Command_TransitionNode:
		return byOperator
	}
	return "run"
}

// The triggers in a history.
const (
	byOperator = "operator"
	bySystem   = "system"
	byReport   = "node_report"
)

// transitionNode moves a node by hand. It refuses a node with an executed run. An observed
// run ends with the transition.
func transitionNode(t *core.Tx, c *internalv1.TransitionNode) (*holdfastv1.Machine, *Error) {
	m, ok := node(t.State, c.GetId())
	if !ok {
		return nil, nodeNotFound(c.GetId())
	}
	if err := lifecycle.CheckNode(m, c.GetState(), c.GetForce()); err != nil {
		return nil, err
	}
	run, err := observedRun(t, m)
	if err != nil {
		return nil, err
	}
	comment := lex.Clip(c.GetComment(), core.MaxNote)
	switch {
	case c.GetState() == holdfastv1.Node_INSTALLING:
		if err := checkObservable(t, m, c.GetRunId()); err != nil {
			return nil, err
		}
		why := lex.First(comment, "an operator says that the install has begun")
		return whole(t.State, beginObserved(t, m, c.GetRunId(), why)), nil
	case run != nil && c.GetState() == holdfastv1.Node_INSTALLED:
		m = observedDone(t, m, run, lex.First(comment, "an operator says that the install is complete"))
	case run != nil && c.GetState() == holdfastv1.Node_INSTALL_FAILED:
		m = observedFailed(t, m, run, lex.First(comment, "an operator says that the install has failed"))
	default:
		if run != nil {
			m = observedCanceled(t, m, run,
				fmt.Sprintf("the node was moved to %s", lifecycle.NodeStateName(c.GetState())))
		}
		phase := lifecycle.PhaseOf(c.GetState(), m)
		if phase != m.GetStatus().GetPhase() &&
			(phase == holdfastv1.MachineStatus_READY || phase == holdfastv1.MachineStatus_IN_SERVICE) {
			setCondition(t, m, lifecycle.NeedsIntervention, false, "Cleared")
		}
		movePhase(t, m, phase, change{by: byOperator, comment: comment, node: c.GetState()})
	}
	if t.Has(core.Level2) && c.GetState() == holdfastv1.Node_PENDING {
		m.Node.ApprovedAt = t.Now
	}
	if c.GetForce() {
		m.Node.InstallAttempts, m.Node.LastInstallError = 0, ""
	}
	putMachine(t, m)
	return whole(t.State, m), nil
}
