package fault

// Parts of the errors that faults return for a broken rule. Package mutant expects them.
const (
	AcceptsOldCA        = "accepts a certificate of the old CA"
	AcceptsOldGossipKey = "accepts the old gossip key"
)
