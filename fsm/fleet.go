package fsm

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/fleet"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// ReasonPoolUnknown is the reason for refusing a machine whose pool does not exist.
const ReasonPoolUnknown = fleet.ReasonPoolUnknown

// ReasonMachineEnrolled is the reason for refusing a pool's token for a machine that has its
// own.
const ReasonMachineEnrolled = fleet.ReasonMachineEnrolled

// MachineEnrolled returns the error for a call for an enrolled machine with its pool's token.
func MachineEnrolled(id string) *Error { return fleet.MachineEnrolled(id) }

// BoundHardware returns a truncated copy, because the data of a BMC can have any size. Both
// the proposer and Apply truncate it, so it always fits in a log entry.
func BoundHardware(in *holdfastv1.HardwareInventory) *holdfastv1.HardwareInventory {
	return fleet.BoundHardware(in)
}

// ProviderOf returns the provider named by a machine, or "" if configuration decides.
// StartRun.checked_provider is compared with it.
func ProviderOf(m *holdfastv1.Machine) string { return fleet.ProviderOf(m) }

// NormalizeMachine converts spec and labels of a request to their stored form, and returns
// the violations. MAC addresses get lower case, colons and no duplicates; endpoints are
// trimmed.
func NormalizeMachine(m *holdfastv1.Machine) []FieldViolation { return fleet.NormalizeMachine(m) }

// The reasons from which the node API derives its errors.
const (
	ReasonNodeTransition  = fleet.ReasonNodeTransition  // not in the table of transitions
	ReasonInstallAttempts = fleet.ReasonInstallAttempts // the retry limit is reached; force resets it
	ReasonNodeNotFound    = fleet.ReasonNodeNotFound
	// The limit of discovered machines that wait for approval is reached.
	ReasonDiscoveryFull = fleet.ReasonDiscoveryFull
)
