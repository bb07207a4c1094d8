package cluster

import (
	"context"
	"time"

	"github.com/hashicorp/raft"
)

// forgetStrayLeader makes Raft forget a leader that it still names while this peer stands for
// election itself.
//
// The library takes an entry of a leader while it is a candidate that was told to stand at once (by
// a leader that hands over, or by our death watch), and while its heartbeat timer runs out: then it
// is a candidate that has a leader, and it clears that leader never again. Entries that come that
// late are those a paused process finds in its sockets. If that leader is gone for good and this
// peer's log is behind, nobody is elected ever: it refuses the other one because "we have a
// leader", and the other one refuses it because of its log. A leader that lives ends this by itself
// with its next heartbeat.
func (n *Node) forgetStrayLeader(ctx context.Context) error {
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
			n.log.Warn("this peer stands for election and still names a leader: forgetting it", "leader", id)
			n.gate.callElection(recall)
			since = time.Time{}
		}
	}
}
