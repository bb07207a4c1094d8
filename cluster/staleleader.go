package cluster

import (
	"context"
	"time"

	"github.com/hashicorp/raft"
)

// resetStaleLeader makes Raft forget a leader that it still names while this peer stands
// for election.
//
// A Raft candidate accepts a leader's entry while its heartbeat timer expires, if it was
// told to stand at once by a handover or by the death watch. It is then a candidate that
// has a leader, and Raft never clears that leader. Such late entries are those that a
// paused process finds in its sockets. If the leader is lost permanently and this peer's
// log is behind, no peer can ever be elected: this peer refuses the other one because it
// has a leader, and the other one refuses this peer because of its log. A live leader ends
// this state with its next heartbeat.
func (n *Node) resetStaleLeader(ctx context.Context) error {
	tick := time.NewTicker(n.cfg.scale(baseHeartbeat) / 5)
	defer tick.Stop()
	var since time.Time
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		id, self, ok := n.Leader()
		switch {
		case !ok || self || n.raft.State() != raft.Candidate:
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) > n.cfg.scale(baseHeartbeat):
			n.log.Warn("candidate still has a stale leader, resetting it", "leader", id)
			n.gate.CallElection(recall)
			since = time.Time{}
		}
	}
}
