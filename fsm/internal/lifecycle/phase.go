package lifecycle

import (
	"cmp"
	"slices"
	"strings"

	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// manualPhases returns the phases to which operators may move a machine. Only runs enter and
// leave PROVISIONING, and RETIRED is final (docs/clients.md, 002 and 004).
func manualPhases(from holdfastv1.MachineStatus_Phase) []holdfastv1.MachineStatus_Phase {
	const (
		ready       = holdfastv1.MachineStatus_READY
		inService   = holdfastv1.MachineStatus_IN_SERVICE
		maintenance = holdfastv1.MachineStatus_MAINTENANCE
		rma         = holdfastv1.MachineStatus_RMA
		retired     = holdfastv1.MachineStatus_RETIRED
	)
	switch from {
	case holdfastv1.MachineStatus_FACTORY_READY:
		return []holdfastv1.MachineStatus_Phase{ready, inService, maintenance, rma, retired}
	case ready:
		return []holdfastv1.MachineStatus_Phase{inService, maintenance, rma, retired}
	case inService:
		return []holdfastv1.MachineStatus_Phase{ready, maintenance, rma, retired}
	case maintenance:
		return []holdfastv1.MachineStatus_Phase{ready, inService, rma, retired}
	case rma:
		return []holdfastv1.MachineStatus_Phase{ready, maintenance, retired}
	}
	return nil
}

// CheckPhase refuses to move a machine by hand to a phase that operators cannot reach from its own.
func CheckPhase(id string, from, to holdfastv1.MachineStatus_Phase) *refusal.Error {
	allowed := manualPhases(from)
	if slices.Contains(allowed, to) {
		return nil
	}
	names := make([]string, 0, len(allowed))
	for _, p := range allowed {
		names = append(names, p.String())
	}
	return refusal.New(refusal.FailedPrecondition, "PHASE_TRANSITION",
		"machine %q cannot be moved by hand from %s to %s; from there it can go to: %s", id, from, to,
		cmp.Or(strings.Join(names, ", "), "nothing"))
}

// KeepsNode reports whether a node keeps its state during a run that installs nothing.
func KeepsNode(node holdfastv1.Node_State) bool {
	return node == holdfastv1.Node_ACTIVE || node == holdfastv1.Node_INSTALL_FAILED
}

// NodeAt returns the node state that goes with a phase. Active requires IN_SERVICE, retired
// RETIRED, installing PROVISIONING and install_failed MAINTENANCE. Other states are
// unchanged.
func NodeAt(phase holdfastv1.MachineStatus_Phase, node holdfastv1.Node_State) holdfastv1.Node_State {
	switch {
	case phase == holdfastv1.MachineStatus_IN_SERVICE:
		return holdfastv1.Node_ACTIVE
	case phase == holdfastv1.MachineStatus_RETIRED:
		return holdfastv1.Node_RETIRED
	case node == holdfastv1.Node_ACTIVE:
		return holdfastv1.Node_INSTALLED
	case node == holdfastv1.Node_INSTALLING && phase != holdfastv1.MachineStatus_PROVISIONING,
		node == holdfastv1.Node_INSTALL_FAILED && phase != holdfastv1.MachineStatus_MAINTENANCE:
		return holdfastv1.Node_PENDING
	}
	return node
}
