package fsm

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// nodeRoute returns the intermediate states of a transition that the table does not have
// directly. A run replaces steps that the table leaves to operators: starting an install
// approves the machine, and a machine that joins its cluster was installed.
func nodeRoute(from, to holdfastv1.Node_State) []holdfastv1.Node_State {
	switch {
	case to == holdfastv1.Node_INSTALLING &&
		(from == holdfastv1.Node_DISCOVERED || from == holdfastv1.Node_INSTALL_FAILED ||
			from == holdfastv1.Node_REPROVISION):
		return []holdfastv1.Node_State{holdfastv1.Node_PENDING}
	case to == holdfastv1.Node_INSTALLING && from == holdfastv1.Node_ACTIVE:
		return []holdfastv1.Node_State{holdfastv1.Node_REPROVISION, holdfastv1.Node_PENDING}
	case from == holdfastv1.Node_INSTALLING && to == holdfastv1.Node_ACTIVE:
		return []holdfastv1.Node_State{holdfastv1.Node_INSTALLED}
	case from == holdfastv1.Node_INSTALLING && to == holdfastv1.Node_PENDING:
		return []holdfastv1.Node_State{holdfastv1.Node_INSTALL_FAILED}
	}
	return nil
}

// noteFailedInstall records a failed install in the node's record, as reports of an installer
// do. The caller stores the machine.
func noteFailedInstall(m *holdfastv1.Machine, attempt int32, why string) {
	if m.Node == nil {
		m.Node = &holdfastv1.NodeRecord{}
	}
	m.Node.InstallAttempts = max(m.GetNode().GetInstallAttempts(), attempt)
	m.Node.LastInstallError = lex.Clip(lex.First(why, m.GetNode().GetLastInstallError()), maxNote)
}

// ApprovedPlan returns the plan that installs a machine when it boots from the network, or
// "". It requires that an admin has moved the node to pending, and that it has a workflow.
// Nodes that were pending before feature level 2 are not installed this way.
func ApprovedPlan(m *holdfastv1.Machine) string {
	s, n := m.GetStatus(), m.GetNode()
	if s.GetNodeState() != holdfastv1.Node_PENDING || s.GetPhase() != holdfastv1.MachineStatus_READY ||
		s.GetActiveRunId() != "" || n.GetApprovedAt() == nil {
		return ""
	}
	return n.GetWorkflowId()
}

// Installs reports whether a plan writes an image to the disk.
func Installs(p *holdfastv1.Plan) bool { return nodeDuring(p) == holdfastv1.Node_INSTALLING }
