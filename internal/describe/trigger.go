package describe

// NodeTrigger returns what changed the state of a node, in the words of the node API (spec 004):
// admin, node_report or system.
func NodeTrigger(triggeredBy string) string {
	switch triggeredBy {
	case "operator", "admin":
		return "admin"
	case "node_report":
		return triggeredBy
	}
	return "system"
}
