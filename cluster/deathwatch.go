package cluster

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/cluster/internal/transport"
	"github.com/holdfast-metal/holdfast/cluster/internal/wait"
)

// The death watch detects that the leader's process has ended. Each follower holds a TCP
// connection to the leader. Suppose it closes, a new one is refused, and nothing arrives
// from the leader any more. Then the process has ended, and the follower calls an election
// at once instead of waiting for its heartbeat timeout. A refused connection alone proves
// nothing, because a firewall may reject one direction while the leader's heartbeats still
// arrive. So a connection must have been lost a moment before. Followers take turns, so
// that they do not compete. Elections remain Raft's. If a host vanishes, its connections do
// not close, and the timeouts decide.

const (
	redials     = 30                    // a dying process resets connections until the kernel has closed its listener
	redialPause = time.Millisecond      // between redials, and between checks for received data
	rankPause   = 40 * time.Millisecond // between the followers' turns: longer than a vote and its two syncs under load
	tlsPause    = 25 * time.Millisecond // added with TLS, because the first follower's vote request needs a handshake
	recall      = 75 * time.Millisecond // between elections of the first follower; others wait longer, by their turns
	recalls     = 20                    // after these, the timeouts have expired, or the watch begins again
	watchPause  = 250 * time.Millisecond
	dialTimeout = time.Second
	// silence is how long nothing may arrive from a leader whose connections have not
	// closed. It is two heartbeats, which are sent every 50 to 100 ms at multiplier 1.
	silence = 200 * time.Millisecond
	closing = 100 * time.Millisecond // within it, all connections of an ended process are seen to close
)

// lostConn is the last connection to a leader that closed while it was held.
type lostConn struct {
	id string
	at time.Time
}

// deathWatcher watches the process of the leader.
type deathWatcher struct {
	n *Node

	watching atomic.Pointer[string] // the peer that it is connected to
}

// run watches the process of the current leader.
func (w *deathWatcher) run(ctx context.Context) error {
	var lost lostConn
	for ctx.Err() == nil {
		changed := w.n.changed.Wait()
		id, self, ok := w.n.Leader()
		if ok && !self {
			w.watchPeer(ctx, id, &lost)
			if next, _, ok := w.n.Leader(); ok && next != id {
				continue
			}
			changed = nil // try again, but not too often
		}
		select {
		case <-changed:
		case <-time.After(watchPause):
		case <-ctx.Done():
		}
	}
	return nil
}

// watchPeer returns when the peer no longer leads, has died, or cannot be watched.
func (w *deathWatcher) watchPeer(ctx context.Context, id string, lost *lostConn) {
	conn, err := w.dialRaft(id)
	defer w.watching.Store(nil)
	held := err == nil // the refusal below follows a connection, however late
	for brief := 0; err == nil; {
		w.watching.Store(&id)
		began := time.Now()
		if !w.holdWhileLeads(ctx, id, conn) {
			return
		}
		*lost = lostConn{id: id, at: time.Now()}
		pause := redialPause
		if time.Since(began) > watchPause {
			brief, pause = 0, 0
		} else if brief++; brief > redials {
			pause = watchPause // the peer lives but hangs up, so it may reject this peer
		}
		if !wait.Sleep(ctx, pause) {
			return
		}
		conn, err = redial(ctx, func() (net.Conn, error) { return w.dialRaft(id) })
	}
	if ctx.Err() != nil || !errors.Is(err, syscall.ECONNREFUSED) || !w.leads(id) {
		return
	}
	// A leader that always refuses may be alive behind a firewall, and a pause in its
	// messages on a busy machine does not prove that it ended. So a lost connection counts
	// for the first refusal after it, which a busy machine may delay, and then only for the
	// duration of Raft's own timeout. It counts for longer while the leader stays silent.
	if lost.id != id || !held && time.Since(lost.at) > w.n.cfg.scale(baseHeartbeat) {
		return
	}
	if w.callElection(ctx, id) {
		lost.at = time.Now()
	}
}

func (w *deathWatcher) dialRaft(id string) (net.Conn, error) {
	addr, err := w.n.ServerAddr(raft.ServerID(id))
	if err != nil {
		return nil, err
	}
	return w.n.stream.Dial(addr, dialTimeout)
}

// redial returns a new connection, or the error of the last try. A reset connection is
// retried: if the process is ending, the next one is refused.
func redial(ctx context.Context, dial func() (net.Conn, error)) (net.Conn, error) {
	for try := 1; ; try++ {
		conn, err := dial()
		if !transport.Closed(err) || try == redials || !wait.Sleep(ctx, redialPause) {
			return conn, err
		}
	}
}

// holdWhileLeads reports whether the connection closed while the peer was the leader.
func (w *deathWatcher) holdWhileLeads(ctx context.Context, id string, conn net.Conn) bool {
	closed := make(chan struct{})
	go func() { // ends when the connection is closed, at the latest below
		defer close(closed)
		_, _ = conn.Read(make([]byte, 1)) // the leader never writes
	}()
	defer func() {
		_ = conn.Close()
		<-closed
	}()
	for {
		changed := w.n.changed.Wait()
		if !w.leads(id) {
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

// leads reports whether this peer knows id as the leader.
func (w *deathWatcher) leads(id string) bool {
	l, _, ok := w.n.Leader()
	return ok && l == id
}

// callElection stands for election until there is another leader. The first follower may
// lose if another follower's log is longer. It reports whether the leader was refusing and silent
// to the end, and there is no other one.
func (w *deathWatcher) callElection(ctx context.Context, dead string) (ended bool) {
	others, _ := w.n.voters()
	if w.n.Votes() != nil {
		return false
	}
	turn := w.turn(dead, others)
	if !w.awaitTurn(ctx, turn) {
		return false
	}
	logged, waitedFor := false, uint64(0)
	for range recalls {
		if l, _, ok := w.n.Leader(); ok && l != dead {
			return false
		}
		if !w.goesSilent(ctx, dead) {
			return false // it is alive; only connections to it are rejected, and Raft does not need those
		}
		if conn, err := w.dialRaft(dead); err == nil {
			_ = conn.Close() // it is back
			return false
		}
		if term := w.votedForAnother(); term > waitedFor {
			waitedFor = term // an election is in progress, and standing in the next term would end it
		} else if _, votes := w.n.voters(); votes && w.n.raft.State() == raft.Follower {
			if !logged {
				w.n.log.Warn("leader process ended, calling an election", "leader", dead)
				logged = true
			}
			w.n.metrics.deathWatch.Inc()
			w.n.gate.CallElection(recall)
		}
		if !wait.Sleep(ctx, recall+turn) { // turns differ, so two candidates that split the vote do not collide again
			return false
		}
	}
	return true
}

// turn returns how long this follower waits before it stands. Followers stand one after
// another, ordered by id.
func (w *deathWatcher) turn(dead string, others []string) time.Duration {
	rank := 0
	for _, id := range others {
		if id != dead && id < w.n.cfg.NodeID {
			rank++
		}
	}
	turn := rankPause
	if w.n.cfg.TLS != nil {
		turn += tlsPause
	}
	return time.Duration(rank) * turn
}

// awaitTurn waits for this follower's turn. The turn comes early if this peer refused a
// candidate before it, because then its own log is longer.
func (w *deathWatcher) awaitTurn(ctx context.Context, turn time.Duration) bool {
	term := w.n.raft.CurrentTerm()
	for end := time.Now().Add(turn); time.Now().Before(end) && w.n.gate.Refused() <= term; {
		if !wait.Sleep(ctx, min(redialPause, time.Until(end))) {
			return false
		}
	}
	return ctx.Err() == nil
}

// goesSilent reports whether nothing arrives from a leader any more. The connections of an
// ended process close within milliseconds of each other. Data that they delivered before
// counts until they have closed.
func (w *deathWatcher) goesSilent(ctx context.Context, leader string) bool {
	for end := time.Now().Add(closing); w.leads(leader) && w.n.stream.HeardFrom(leader, w.n.cfg.scale(silence)); {
		if time.Now().After(end) || !wait.Sleep(ctx, redialPause) {
			return false
		}
	}
	return true
}

// votedForAnother returns the current term if this peer has voted for another one in it and
// no leader is known yet. Otherwise it returns 0.
func (w *deathWatcher) votedForAnother() uint64 {
	term, err := w.n.stores.VoteTerm()
	if err != nil || term != w.n.raft.CurrentTerm() {
		return 0
	}
	candidate, err := w.n.stores.VoteCandidate()
	_, leader := w.n.raft.LeaderWithID() // the dead leader, until a candidate stands in a new term
	if err != nil || leader != "" || candidate == w.n.stream.Addr().String() {
		return 0
	}
	return term
}

// resetStaleLeader makes Raft forget a leader that it still names while this peer stands
// for election.
//
// A Raft candidate accepts a leader's entry while its heartbeat timer expires, if it was
// asked to stand at once by a handover or by the death watch. It is then a candidate that
// has a leader, and Raft never clears that leader. Such late entries are those that a
// paused process finds in its sockets. If the leader is lost permanently and this peer's
// log is behind, no peer can ever be elected: this peer refuses the other one because it
// has a leader, and the other one refuses this peer because of its log. A live leader ends
// this state with its next heartbeat.
func (w *deathWatcher) resetStaleLeader(ctx context.Context) error {
	tick := time.NewTicker(w.n.cfg.scale(baseHeartbeat) / 5)
	defer tick.Stop()
	var since time.Time
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		id, self, ok := w.n.Leader()
		switch {
		case !ok || self || w.n.raft.State() != raft.Candidate:
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) > w.n.cfg.scale(baseHeartbeat):
			w.n.log.Warn("candidate still has a stale leader, resetting it", "leader", id)
			w.n.gate.CallElection(recall)
			since = time.Time{}
		}
	}
}
