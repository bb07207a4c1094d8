package lifecycle

import holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"

// InNoCluster reports whether a machine is known to have no node, or nothing names a cluster that
// may have one. A node that is not Ready is a node.
func InNoCluster(m *holdfastv1.Machine) bool {
	c := Condition(m, InCluster)
	switch {
	case c.GetStatus():
		return false
	case c == nil || c.GetUnknown():
		return m.GetStatus().GetClusterRef() == "" && m.GetSpec().GetTargetClusterRef() == ""
	}
	switch c.GetReason() {
	case "NodeNotFound", "NodeOfAnotherMachine", "Repaved", "RMA":
		return true
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
