package lifecycle

import (
	"cmp"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// InNoCluster reports whether a machine is known to have no node, or nothing names a cluster that
// may have one. A node that is not Ready is a node. A run may name the cluster, or "": nothing is
// known of a node in another one than that of the machine.
func InNoCluster(m *holdfastv1.Machine, named string) bool {
	c := Condition(m, InCluster)
	own := cmp.Or(m.GetStatus().GetClusterRef(), m.GetSpec().GetTargetClusterRef())
	switch {
	case c.GetStatus():
		return false
	case c == nil || c.GetUnknown():
		return cmp.Or(named, own) == ""
	}
	switch c.GetReason() {
	case "Repaved", "RMA":
		return true
	case "NodeNotFound", "NodeOfAnotherMachine":
		return named == "" || named == own
	}
	return false
}

// ClusterText returns the condition of a machine's node as text: "false (NodeNotFound)".
func ClusterText(m *holdfastv1.Machine) string {
	c := Condition(m, InCluster)
	switch {
	case c == nil:
		return "not known"
	case c.GetReason() == "":
		return ConditionStatus(c)
	}
	return ConditionStatus(c) + " (" + c.GetReason() + ")"
}
