package lifecycle

import (
	"slices"
	"strings"

	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Passing reports whether a machine's node is in a transient state.
func Passing(m *holdfastv1.Machine) bool {
	switch m.GetStatus().GetNodeState() {
	case holdfastv1.Node_INSTALLING, holdfastv1.Node_DEPROVISIONING, holdfastv1.Node_MIGRATING:
		return true
	}
	return false
}

// NodeRoute returns the intermediate states of a transition that the table does not have
// directly. A run replaces steps that the table leaves to operators: starting an install
// approves the machine, and a machine that joins its cluster was installed.
func NodeRoute(from, to holdfastv1.Node_State) []holdfastv1.Node_State {
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

// ApprovedPlan returns the plan that installs a machine when it boots from the network, or
// "". It requires that an admin has moved the node to pending, and that it has a workflow.
func ApprovedPlan(m *holdfastv1.Machine) string {
	s, n := m.GetStatus(), m.GetNode()
	if s.GetNodeState() != holdfastv1.Node_PENDING || s.GetPhase() != holdfastv1.MachineStatus_READY ||
		s.GetActiveRunId() != "" || n.GetApprovedAt() == nil {
		return ""
	}
	return n.GetWorkflowId()
}

// The reasons from which the node API derives its errors.
const (
	ReasonTransition      = "NODE_TRANSITION"  // not in the table of transitions
	ReasonInstallAttempts = "INSTALL_ATTEMPTS" // the retry limit is reached; force resets it
)

// MaxInstallAttempts is the number of consecutive failed installs after which a node needs an
// operator.
const MaxInstallAttempts = 3

// nodeTransitions returns the states that may follow a state. Any node may be retired, and
// retired is final.
func nodeTransitions(from holdfastv1.Node_State) []holdfastv1.Node_State {
	var next []holdfastv1.Node_State
	switch from {
	case holdfastv1.Node_DISCOVERED, holdfastv1.Node_INSTALL_FAILED, holdfastv1.Node_REPROVISION:
		next = []holdfastv1.Node_State{holdfastv1.Node_PENDING}
	case holdfastv1.Node_PENDING:
		next = []holdfastv1.Node_State{holdfastv1.Node_INSTALLING}
	case holdfastv1.Node_INSTALLING:
		next = []holdfastv1.Node_State{holdfastv1.Node_INSTALLED, holdfastv1.Node_INSTALL_FAILED}
	case holdfastv1.Node_INSTALLED, holdfastv1.Node_MIGRATING:
		next = []holdfastv1.Node_State{holdfastv1.Node_ACTIVE}
	case holdfastv1.Node_ACTIVE:
		next = []holdfastv1.Node_State{
			holdfastv1.Node_REPROVISION, holdfastv1.Node_DEPROVISIONING, holdfastv1.Node_MIGRATING,
		}
	case holdfastv1.Node_RETIRED:
		return nil
	}
	return append(next, holdfastv1.Node_RETIRED)
}

// NodeStateName returns a state in the lower case of the node API.
func NodeStateName(s holdfastv1.Node_State) string { return strings.ToLower(s.String()) }

// CheckNode refuses transitions that are not in the table. The error texts are
// specified by the node API.
func CheckNode(m *holdfastv1.Machine, to holdfastv1.Node_State, force bool) *refusal.Error {
	from := m.GetStatus().GetNodeState()
	allowed := nodeTransitions(from)
	if !slices.Contains(allowed, to) {
		names := make([]string, 0, len(allowed))
		for _, s := range allowed {
			names = append(names, "'"+NodeStateName(s)+"'")
		}
		return refusal.New(refusal.FailedPrecondition, ReasonTransition,
			"Invalid state transition from '%s' to '%s'. Valid transitions: [%s]",
			NodeStateName(from), NodeStateName(to), strings.Join(names, ", ")).With("machine_id", m.GetMachineId())
	}
	if from == holdfastv1.Node_INSTALL_FAILED && to == holdfastv1.Node_PENDING && !force &&
		m.GetNode().GetInstallAttempts() >= MaxInstallAttempts {
		return refusal.New(refusal.FailedPrecondition, ReasonInstallAttempts,
			"Max install attempts (%d) exceeded. Use force=true to reset and retry.", MaxInstallAttempts).
			With("machine_id", m.GetMachineId())
	}
	return nil
}

// PhaseOf returns the phase that goes with a new node state, so that the two cannot
// contradict each other (docs/concepts.md). It does not handle INSTALLING and INSTALL_FAILED,
// because runs move machines there.
func PhaseOf(to holdfastv1.Node_State, m *holdfastv1.Machine) holdfastv1.MachineStatus_Phase {
	from, phase := m.GetStatus().GetNodeState(), m.GetStatus().GetPhase()
	switch to {
	case holdfastv1.Node_ACTIVE:
		return holdfastv1.MachineStatus_IN_SERVICE
	case holdfastv1.Node_RETIRED:
		return holdfastv1.MachineStatus_RETIRED
	case holdfastv1.Node_DEPROVISIONING, holdfastv1.Node_MIGRATING: // operators are working on it
		return holdfastv1.MachineStatus_MAINTENANCE
	case holdfastv1.Node_PENDING:
		if from == holdfastv1.Node_INSTALL_FAILED || phase == holdfastv1.MachineStatus_FACTORY_READY {
			return holdfastv1.MachineStatus_READY
		}
	}
	if phase == holdfastv1.MachineStatus_IN_SERVICE {
		return holdfastv1.MachineStatus_READY
	}
	return phase
}
