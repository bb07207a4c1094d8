package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/cluster/internal/joinwatch"
	"github.com/holdfast-metal/holdfast/cluster/internal/readindex"
)

// why returns the reason why no leader could be asked. leader is the one that this peer knows.
func (rt *router) why(leader string) string {
	switch {
	case rt.n.failure() != nil:
		return rt.n.stopping().Error()
	case leader == "":
		return rt.n.joins.Reason()
	case leader == rt.n.cfg.NodeID:
		return "this peer is taking over the leadership"
	}
	return fmt.Sprintf("leader %s is unreachable", leader)
}

// problem returns the reason why this peer cannot serve: it is stopping, or it knows no leader.
func (n *Node) problem() error {
	if n.failure() != nil {
		return n.stopping()
	}
	if _, _, ok := n.Leader(); !ok {
		return fmt.Errorf("%w: %s", ErrNoLeader, n.joins.Reason())
	}
	return nil
}

// failure returns the error that makes this peer stop, or nil.
func (n *Node) failure() error {
	if err := n.fatal.Load(); err != nil {
		return *err
	}
	return nil
}

// stopping returns the error for calls while this peer stops.
func (n *Node) stopping() error {
	if err := n.failure(); err != nil {
		return fmt.Errorf("%w: %w", readindex.ErrStopping, err)
	}
	return readindex.ErrStopping
}

// Readiness returns nil if this peer can serve and the cluster can rely on it, or an error with the
// reason: it is stopping, it knows no leader, or it does not vote (see Votes).
func (n *Node) Readiness() error {
	if err := n.problem(); err != nil {
		return err
	}
	return n.Votes()
}

// standing is what package joinwatch asks this peer.
type standing struct{ n *Node }

// Standing implements joinwatch.Cluster.
func (s standing) Standing() joinwatch.Standing {
	n := s.n
	_, _, leader := n.Leader()
	st := joinwatch.Standing{Self: n.cfg.NodeID, Leader: leader}
	others, self := n.voters()
	if st.Voters = others; self {
		st.Voters = append(st.Voters, n.cfg.NodeID)
	}
	for _, m := range n.gossip.Peers() {
		if m.Alive {
			st.Seen = append(st.Seen, m.Meta.GetId())
		}
	}
	if t := n.leaderless.Load(); t != nil {
		st.For = time.Since(*t)
	}
	st.Forming = n.founding.why(st.Seen)
	return st
}

// why returns the reason why there is no cluster, for a peer without one.
func (fd *founding) why(seen []string) string {
	expect := fd.n.cfg.BootstrapExpect
	lost := fd.replaced()
	switch {
	case len(lost) > 0:
		return fmt.Sprintf("the cluster cannot form: founders %v have lost their data since they agreed to form it: "+
			"stop the founders %v, move their data directories away and start them again",
			lost, ids(fd.n.ident.get().Forming))
	case expect == 0:
		return fmt.Sprintf("this peer has no cluster yet: it waits for the leader of one to add it; peers seen: %v", seen)
	case len(seen) >= expect:
		return fmt.Sprintf("this peer has no cluster yet: its founders (%d) see each other, but have not formed it; "+
			"peers seen: %v",
			expect, seen)
	}
	return fmt.Sprintf("this peer has no cluster yet: one forms when all its founders (%d) see each other; peers seen: %v",
		expect, seen)
}

// Ask implements joinwatch.Cluster.
func (s standing) Ask(ctx context.Context, id string) error {
	st, err := s.n.reporter.peerStats(ctx, id)
	switch {
	case err != nil:
		return err
	case st.GetPeerId() != id:
		return errors.New("another peer answers at its address: " + st.GetPeerId())
	case st.GetState() == raft.Leader.String():
		return joinwatch.ErrLeads
	}
	return nil
}

// FailedJoins implements joinwatch.Cluster.
func (s standing) FailedJoins() map[string]error { return s.n.gossip.FailedJoins() }
