package propose

import (
	"errors"

	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/cluster/outcome"
)

// Outcome returns the outcome for an error of a Raft future. dispatched is true if the
// entry has an index, so its bytes may be on a disk.
func Outcome(err error, dispatched bool) outcome.Kind {
	switch {
	case errors.Is(err, raft.ErrNotLeader),
		errors.Is(err, raft.ErrLeadershipTransferInProgress),
		errors.Is(err, raft.ErrEnqueueTimeout),
		errors.Is(err, raft.ErrAbortedByRestore):
		return outcome.NotApplied
	case errors.Is(err, raft.ErrRaftShutdown) && !dispatched:
		return outcome.NotApplied
	}
	// ErrLeadershipLost, ErrRaftShutdown of a dispatched entry, an error of the log store,
	// or a timeout.
	return outcome.Unknown
}
