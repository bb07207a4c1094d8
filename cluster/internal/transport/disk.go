package transport

import (
	"errors"
	"time"

	"github.com/hashicorp/raft"
)

// The leader sends entries to its followers while it writes them itself, but Raft takes them for
// written. So no peer's acknowledgement may count before the entries are on this peer's disk:
//
//   - A follower's answer to the leader reaches Raft only then. With one other voter at least, no
//     entry is committed without such an answer.
//   - A peer that has lost the leadership may still be writing entries. It receives them from
//     the new leader again, and Raft would acknowledge them without another write. So it writes
//     them first.

var errNotServed = errors.New("this peer no longer leads in this term, or no longer replicates to the other")

// synced reports whether this peer's log is on disk up to an index. If not, the channel is closed
// when more of it is. Until the gate is attached, all of it is on disk.
func (g *Gate) synced(index uint64) (bool, <-chan struct{}) {
	if l := g.local.Load(); l != nil {
		return l.Synced(index)
	}
	return true, nil
}

// last returns the index of the last entry of a request, or 0.
func last(req *raft.AppendEntriesRequest) uint64 {
	if n := len(req.Entries); n > 0 {
		return req.Entries[n-1].Index
	}
	return 0
}

// finishWrites blocks until this peer may pass a request to Raft, which then acknowledges entries
// that it already has. It reports false if the peer stops before, and the request must be
// dropped.
func (g *Gate) finishWrites(rpc raft.RPC) bool {
	req, ok := rpc.Command.(*raft.AppendEntriesRequest)
	return !ok || g.awaitSync(last(req), func() bool { return true }) == nil
}

// awaitSync blocks until this peer's log is on disk up to an index. It returns an error if the
// peer stops before, or if wanted returns false. Raft goes on with heartbeats as long as a call
// runs, also in a term in which it no longer leads, and nobody would stand for election.
func (g *Gate) awaitSync(index uint64, wanted func() bool) error {
	ok, written := g.synced(index)
	if ok {
		return nil
	}
	poll := time.NewTicker(retryPause)
	defer poll.Stop()
	for !ok {
		select {
		case <-written:
			ok, written = g.synced(index)
		case <-poll.C:
			if !wanted() {
				return errNotServed
			}
		case <-g.hungUp:
			return errHungUp
		case <-g.stop:
			return errHungUp
		}
	}
	return nil
}
