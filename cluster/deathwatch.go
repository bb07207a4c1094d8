package cluster

import (
	"context"
	"errors"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/hashicorp/raft"
)

// The death watch. Each follower holds a TCP connection to the leader. If it closes and another one
// is refused, and nothing arrives from the leader any more, the leader's process has ended: the
// follower calls an election at once instead of waiting for its heartbeat timeout. A refused
// connection alone proves nothing: a firewall that rejects one direction refuses it too, while the
// leader's heartbeats go on arriving, so one must have been lost a moment ago. The followers take
// turns, so that they do not stand against each other. Elections stay Raft's own. A host that
// vanishes closes nothing: then the timeouts count.

const (
	redials     = 30                    // a dying process resets connections until the kernel has closed its listener
	redialPause = time.Millisecond      // between them, and between polls of what has arrived
	rankPause   = 40 * time.Millisecond // between the followers' turns: more than a vote and its two syncs take under load
	tlsPause    = 25 * time.Millisecond // more of it with TLS: the first one's call for votes begins with a handshake
	recall      = 75 * time.Millisecond // between elections of the first follower; the others wait longer, by their turns
	recalls     = 20                    // then the timeouts have taken over
	watchPause  = 250 * time.Millisecond
	dialTimeout = time.Second
	// silence is how long nothing has to arrive from a leader whose connections have not closed:
	// two heartbeats, which are sent every 50 to 100 ms at multiplier 1.
	silence = 200 * time.Millisecond
	closing = 100 * time.Millisecond // in which all connections of a process that has ended are seen to close
)

// lostConn is the last connection to a leader that closed while it was held.
type lostConn struct {
	id string
	at time.Time
}

// deathWatch watches whoever leads.
func (n *Node) deathWatch(ctx context.Context) error {
	var lost lostConn
	for ctx.Err() == nil {
		changed := n.changed.wait()
		id, self, ok := n.Leader()
		if ok && !self {
			n.watchPeer(ctx, id, &lost)
			if next, _, ok := n.Leader(); ok && next != id {
				continue
			}
			changed = nil // look again, but not too often
		}
		t := time.NewTimer(watchPause)
		select {
		case <-changed:
		case <-t.C:
		case <-ctx.Done():
		}
		t.Stop()
	}
	return nil
}

// watchPeer returns when the peer leads no more, has died, or cannot be watched.
func (n *Node) watchPeer(ctx context.Context, id string, lost *lostConn) {
	conn, err := n.dialRaft(id)
	defer n.watching.Store(nil)
	for brief := 0; err == nil; {
		n.watching.Store(&id)
		began := time.Now()
		if !n.holdWhileLeads(ctx, id, conn) {
			return
		}
		*lost = lostConn{id: id, at: time.Now()}
		pause := redialPause
		if time.Since(began) > watchPause {
			brief, pause = 0, 0
		} else if brief++; brief > redials {
			pause = watchPause // it lives and hangs up: it may not want this peer
		}
		if !sleep(ctx, pause) {
			return
		}
		conn, err = redial(ctx, func() (net.Conn, error) { return n.dialRaft(id) })
	}
	if ctx.Err() != nil || !errors.Is(err, syscall.ECONNREFUSED) || !n.leads(id) {
		return
	}
	// A leader that refuses all the time may be alive behind a firewall, and a pause in what
	// arrives from it on a busy machine is no proof of its end. So a lost connection counts for as
	// long as Raft's own timeout takes.
	if lost.id != id || time.Since(lost.at) > n.cfg.scale(baseHeartbeat) {
		return
	}
	n.callElection(ctx, id)
}

func (n *Node) dialRaft(id string) (net.Conn, error) {
	addr, err := n.ServerAddr(raft.ServerID(id))
	if err != nil {
		return nil, err
	}
	return n.stream.Dial(addr, dialTimeout)
}

// redial returns a new connection, or the error of the last try. A connection that is reset
// meanwhile is tried again: the process may be about to end, and then the next one is refused.
func redial(ctx context.Context, dial func() (net.Conn, error)) (net.Conn, error) {
	for try := 1; ; try++ {
		conn, err := dial()
		if !connClosed(err) || try == redials || !sleep(ctx, redialPause) {
			return conn, err
		}
	}
}

// holdWhileLeads reports whether the connection has closed while the peer was the leader.
func (n *Node) holdWhileLeads(ctx context.Context, id string, conn net.Conn) bool {
	closed := make(chan struct{})
	go func() { // ends when the connection is closed, below at the latest
		defer close(closed)
		_, _ = conn.Read(make([]byte, 1)) // nobody writes
	}()
	defer func() {
		_ = conn.Close()
		<-closed
	}()
	for {
		changed := n.changed.wait()
		if !n.leads(id) {
			return false
		}
		select {
		case <-closed:
			return true
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// leads reports whether the peer is the leader, as far as this one knows.
func (n *Node) leads(id string) bool {
	l, _, ok := n.Leader()
	return ok && l == id
}

// callElection stands for election until there is another leader: the first one may be refused
// because the other follower's log is longer.
func (n *Node) callElection(ctx context.Context, dead string) {
	others, _ := n.voters()
	if n.Votes() != nil {
		return
	}
	turn := n.turn(dead, others)
	if !n.awaitTurn(ctx, turn) {
		return
	}
	logged, waitedFor := false, uint64(0)
	for range recalls {
		if l, _, ok := n.Leader(); ok && l != dead {
			return
		}
		if !n.goesSilent(ctx, dead) {
			return // it is alive, and connections to it are rejected on the way: Raft does not need them
		}
		if conn, err := n.dialRaft(dead); err == nil {
			_ = conn.Close() // it is back
			return
		}
		if term := n.votedForAnother(); term > waitedFor {
			waitedFor = term // an election is under way, and standing in the next term would end it
		} else if n.raft.State() == raft.Follower && slices.ContainsFunc(n.servers(), n.isSelfVoter) {
			if !logged {
				n.log.Warn("the leader's process has ended: calling an election", "leader", dead)
				logged = true
			}
			n.metrics.deathWatch.Inc()
			n.gate.callElection(recall)
		}
		if !sleep(ctx, recall+turn) { // two candidates that have split the vote do not meet again
			return
		}
	}
}

// turn returns how long this follower waits before it stands: the followers come one after the
// other, by their ids.
func (n *Node) turn(dead string, others []string) time.Duration {
	rank := 0
	for _, id := range others {
		if id != dead && id < n.cfg.NodeID {
			rank++
		}
	}
	turn := rankPause
	if n.cfg.TLS != nil {
		turn += tlsPause
	}
	return time.Duration(rank) * turn
}

// awaitTurn waits for this follower's turn. The turn has come early if a candidate before it was
// refused: then this peer's log is the longer one.
func (n *Node) awaitTurn(ctx context.Context, turn time.Duration) bool {
	term := n.raft.CurrentTerm()
	for end := time.Now().Add(turn); time.Now().Before(end) && n.gate.refused.Load() <= term; {
		if !sleep(ctx, min(redialPause, time.Until(end))) {
			return false
		}
	}
	return ctx.Err() == nil
}

// goesSilent reports whether nothing arrives from a leader any more. The connections of a process
// that has ended close within milliseconds of each other; what was read from them before counts
// until they have.
func (n *Node) goesSilent(ctx context.Context, leader string) bool {
	for end := time.Now().Add(closing); n.leads(leader) && n.stream.heardFrom(leader, n.cfg.scale(silence)); {
		if time.Now().After(end) || !sleep(ctx, redialPause) {
			return false
		}
	}
	return true
}

// votedForAnother returns the present term if this peer has voted for another one in it and no
// leader is known yet; 0 otherwise.
func (n *Node) votedForAnother() uint64 {
	term, err := n.stores.stable.GetUint64(keyLastVoteTerm)
	if err != nil || term != n.raft.CurrentTerm() {
		return 0
	}
	candidate, err := n.stores.stable.Get(keyLastVoteCand)
	_, leader := n.raft.LeaderWithID() // of the term of the dead leader, until somebody stands
	if err != nil || leader != "" || string(candidate) == n.stream.Addr().String() {
		return 0
	}
	return term
}

func (n *Node) isSelfVoter(s raft.Server) bool {
	return string(s.ID) == n.cfg.NodeID && s.Suffrage == raft.Voter
}

// sleep reports whether the whole time has passed.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
