package fsm

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/fleet"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Facets is a set of rows by their facets: rows with one value under a path, rows in all of
// several sets, or rows in any of them. Exactly one of the three is set. An empty Any has no
// rows.
type Facets = table.Facets

// Query narrows down the rows to check. It may include rows that do not match, and never
// excludes one that does.
type Query = table.Query

// StateCounts has the number of machines in each effective state.
type StateCounts = fleet.StateCounts

// MachineFacet reports whether path and value are a facet, so that all matching machines can
// be found by it. Paths are those of filters; the path of a condition is status.conditions
// and its type.
func MachineFacet(path, value string) bool { return schema.MachineFacet(path, value) }

// MAC returns the MAC address of a network port in lower case and with colons. ok is false for
// texts in no notation of MAC addresses, and for zero, broadcast and multicast addresses.
func MAC(s string) (mac string, ok bool) { return lex.MAC(s) }

// Trimmed reports whether a text is a single line without space at its ends.
func Trimmed(s string) bool { return lex.Trimmed(s) }

// BMCKey returns the same text for all spellings of the address of a BMC.
func BMCKey(endpoint string) string { return lex.BMCKey(endpoint) }

// ConditionStatus returns the status of a condition as text: true, false or unknown.
func ConditionStatus(c *holdfastv1.Condition) string { return lifecycle.ConditionStatus(c) }

// Stale is the reason of conditions that were not observed in time.
const Stale = lifecycle.Stale

// DiskInDoubt reports whether a run was canceled while it erased the disks of a machine, and
// nothing has written them since.
func DiskInDoubt(m *holdfastv1.Machine) bool { return lifecycle.DiskInDoubt(m) }

// ApprovedPlan returns the plan that installs a machine when it boots from the network, or
// "". It requires that an admin has moved the node to pending, and that it has a workflow.
func ApprovedPlan(m *holdfastv1.Machine) string { return lifecycle.ApprovedPlan(m) }

// NodeStateName returns a state in the lower case of the node API.
func NodeStateName(s holdfastv1.Node_State) string { return lifecycle.NodeStateName(s) }

// ReasonPoolUnknown is the reason for refusing a machine whose pool does not exist.
const ReasonPoolUnknown = fleet.ReasonPoolUnknown

// ReasonMachineEnrolled is the reason for refusing a pool's token for a machine that has its
// own.
const ReasonMachineEnrolled = fleet.ReasonMachineEnrolled

// ReasonEnrollmentFull is the reason for refusing another machine of a token or of a pool.
const ReasonEnrollmentFull = fleet.ReasonEnrollmentFull

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
