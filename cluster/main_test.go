package cluster_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// A gossip probe ends by its own timeout, up to a second after gossip was stopped.
		goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probeNode"),
		// Raft v1.7.3 stops without answering the entries that wait for its state machine
		// (fsmMutateCh), so their futures never complete. There are at most entriesInFlight
		// of them, in a process that ends.
		goleak.IgnoreTopFunction("github.com/hashicorp/raft.(*deferError).Error"),
	)
}
