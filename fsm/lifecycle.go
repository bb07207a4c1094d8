package fsm

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// ConditionStatus returns the status of a condition as text: true, false or unknown.
func ConditionStatus(c *holdfastv1.Condition) string { return lifecycle.ConditionStatus(c) }

// Stale is the reason of conditions that were not observed in time.
const Stale = lifecycle.Stale

// ApprovedPlan returns the plan that installs a machine when it boots from the network, or
// "". It requires that an admin has moved the node to pending, and that it has a workflow.
// Nodes that were pending before feature level 2 are not installed this way.
func ApprovedPlan(m *holdfastv1.Machine) string { return lifecycle.ApprovedPlan(m) }

// NodeStateName returns a state in the lower case of the node API.
func NodeStateName(s holdfastv1.Node_State) string { return lifecycle.NodeStateName(s) }

// Ended reports whether a run is terminal.
func Ended(r *holdfastv1.Run) bool { return lifecycle.Ended(r) }
