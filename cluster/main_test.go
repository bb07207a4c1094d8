package cluster_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// A probe of gossip ends by its own timeout, which may be a second after gossip has ended.
		goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probeNode"),
		// Raft v1.7.3 stops without a word to the entries that wait for its state machine
		// (fsmMutateCh): whoever asks such a future is never answered. At most entriesInFlight of
		// them, in a process that ends.
		goleak.IgnoreTopFunction("github.com/hashicorp/raft.(*deferError).Error"),
	)
}
