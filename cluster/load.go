package cluster

import (
	"context"
	"fmt"
	"sort"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// CommitBounds is the number of bounds of PeerLoad.commits. It has one more count, for
// commands slower than all bounds (about 5 s).
const CommitBounds = 32

// CommitBound returns the upper bound of bucket i of PeerLoad.commits: 0.1 ms, 0.15 ms, and
// then twice the bound before the previous one.
func CommitBound(i int) time.Duration {
	d := 100 * time.Microsecond << (i / 2)
	if i%2 == 1 {
		d += d / 2
	}
	return d
}

// commitPlace returns the bucket for a command that took d.
func commitPlace(d time.Duration) int {
	return sort.Search(CommitBounds, func(i int) bool { return d <= CommitBound(i) })
}

// load returns the work that this peer has done since it started.
func (n *Node) load() *holdfastv1.PeerLoad {
	l := &holdfastv1.PeerLoad{
		Commands:      n.metrics.commands.Load(),
		CommitSeconds: time.Duration(n.metrics.commitNanos.Load()).Seconds(),
	}
	for i := range n.metrics.commits {
		l.Commits = append(l.Commits, n.metrics.commits[i].Load())
	}
	if n.cfg.Leases != nil {
		live, rate := n.cfg.Leases()
		l.Leases, l.LeaseRate = uint64(max(live, 0)), rate
	}
	return l
}

// LeaderLoad returns the leader's id and its load, which it must report within half a
// second. It returns ErrNoLeader if no leader is known.
func (n *Node) LeaderLoad(ctx context.Context) (leader string, load *holdfastv1.PeerLoad, err error) {
	leader, self, ok := n.Leader()
	switch {
	case !ok:
		return "", nil, ErrNoLeader
	case self:
		return leader, n.load(), nil
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	st, err := n.peerStats(ctx, leader)
	if err != nil {
		return "", nil, fmt.Errorf("get the load of leader %s: %w", leader, err)
	}
	return leader, st.GetLoad(), nil
}
