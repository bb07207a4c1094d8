// Package deathwatch detects that the leader's process has ended, and calls an election then. It
// must not decide which peer leads: elections remain Raft's.
//
// Each follower holds a TCP
// connection to the leader. Suppose it closes, a new one is refused, and nothing arrives
// from the leader any more. Then the process has ended, and the follower calls an election
// at once instead of waiting for its heartbeat timeout. A refused connection alone proves
// nothing, because a firewall may reject one direction while the leader's heartbeats still
// arrive. So a connection must have been lost a moment before. Followers take turns, so
// that they do not compete. Elections remain Raft's. If a host vanishes, its connections do
// not close, and the timeouts decide.
package deathwatch

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/cluster/internal/transport"
	"github.com/holdfast-metal/holdfast/cluster/internal/wait"
)

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

// Raft is what the watch needs of Raft.
type Raft interface {
	State() raft.RaftState
	CurrentTerm() uint64
}

// Config holds what the watch depends on.
type Config struct {
	Self string
	TLS  bool // a connection needs a handshake
	// Heartbeat is the time without a heartbeat after which followers stand for election.
	Heartbeat time.Duration
	// Leader returns the leader that this peer knows, and whether it is this peer.
	Leader func() (id string, self, ok bool)
	// Voters returns the other voters, and whether this peer is one.
	Voters func() (others []string, self bool)
	// Fit returns the reason why the cluster cannot rely on the vote of this peer, or nil.
	Fit func() error
	// VotedFor returns the term of this peer's last vote, and the address of its candidate.
	VotedFor func() (term uint64, candidate string, err error)
	// RaftAddr is the address of this peer.
	RaftAddr string

	// Dial connects to the Raft port of a peer.
	Dial func(id string, timeout time.Duration) (net.Conn, error)
	// HeardFrom reports whether data of a peer has arrived within a time.
	HeardFrom func(id string, within time.Duration) bool
	// Refused returns the term of the last candidate that this peer refused.
	Refused func() uint64
	// CallElection makes this peer stand for election. Calling counts that.
	CallElection func(timeout time.Duration) bool
	Calling      func()

	Changed *wait.Signal // fires when the leader changes
	Scale   func(time.Duration) time.Duration
	Logger  *slog.Logger
}

// Watcher watches the process of the leader.
type Watcher struct {
	cfg  Config
	raft Raft

	watching atomic.Pointer[string] // the peer that it is connected to
}

// New returns a watcher. Run watches.
func New(cfg Config, r Raft) *Watcher { return &Watcher{cfg: cfg, raft: r} }

// Watching returns the peer to which the watch holds a connection, or "".
func (w *Watcher) Watching() string {
	if id := w.watching.Load(); id != nil {
		return *id
	}
	return ""
}

// Run watches the process of the current leader.
func (w *Watcher) Run(ctx context.Context) error {
	var lost lostConn
	for ctx.Err() == nil {
		changed := w.cfg.Changed.Wait()
		id, self, ok := w.cfg.Leader()
		if ok && !self {
			w.watchPeer(ctx, id, &lost)
			if next, _, ok := w.cfg.Leader(); ok && next != id {
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
func (w *Watcher) watchPeer(ctx context.Context, id string, lost *lostConn) {
	conn, err := w.dial(id)
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
		conn, err = redial(ctx, func() (net.Conn, error) { return w.dial(id) })
	}
	if ctx.Err() != nil || !errors.Is(err, syscall.ECONNREFUSED) || !w.leads(id) {
		return
	}
	// A leader that always refuses may be alive behind a firewall, and a pause in its
	// messages on a busy machine does not prove that it ended. So a lost connection counts
	// for the first refusal after it, which a busy machine may delay, and then only for the
	// duration of Raft's own timeout. It counts for longer while the leader stays silent.
	if lost.id != id || !held && time.Since(lost.at) > w.cfg.Heartbeat {
		return
	}
	if w.callElection(ctx, id) {
		lost.at = time.Now()
	}
}

func (w *Watcher) dial(id string) (net.Conn, error) { return w.cfg.Dial(id, dialTimeout) }

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
func (w *Watcher) holdWhileLeads(ctx context.Context, id string, conn net.Conn) bool {
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
		changed := w.cfg.Changed.Wait()
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
func (w *Watcher) leads(id string) bool {
	l, _, ok := w.cfg.Leader()
	return ok && l == id
}

// callElection stands for election until there is another leader. The first follower may
// lose if another follower's log is longer. It reports whether the leader was refusing and silent
// to the end, and there is no other one.
func (w *Watcher) callElection(ctx context.Context, dead string) (ended bool) {
	others, _ := w.cfg.Voters()
	if w.cfg.Fit() != nil {
		return false
	}
	turn := w.turn(dead, others)
	if !w.awaitTurn(ctx, turn) {
		return false
	}
	logged, waitedFor := false, uint64(0)
	for range recalls {
		if l, _, ok := w.cfg.Leader(); ok && l != dead {
			return false
		}
		if !w.goesSilent(ctx, dead) {
			return false // it is alive; only connections to it are rejected, and Raft does not need those
		}
		if conn, err := w.dial(dead); err == nil {
			_ = conn.Close() // it is back
			return false
		}
		if term := w.votedForAnother(); term > waitedFor {
			waitedFor = term // an election is in progress, and standing in the next term would end it
		} else if _, votes := w.cfg.Voters(); votes && w.raft.State() == raft.Follower {
			if !logged {
				w.cfg.Logger.Warn("leader process ended, calling an election", "leader", dead)
				logged = true
			}
			w.cfg.Calling()
			w.cfg.CallElection(recall)
		}
		if !wait.Sleep(ctx, recall+turn) { // turns differ, so two candidates that split the vote do not collide again
			return false
		}
	}
	return true
}

// turn returns how long this follower waits before it stands. Followers stand one after
// another, ordered by id.
func (w *Watcher) turn(dead string, others []string) time.Duration {
	rank := 0
	for _, id := range others {
		if id != dead && id < w.cfg.Self {
			rank++
		}
	}
	turn := rankPause
	if w.cfg.TLS {
		turn += tlsPause
	}
	return time.Duration(rank) * turn
}

// awaitTurn waits for this follower's turn. The turn comes early if this peer refused a
// candidate before it, because then its own log is longer.
func (w *Watcher) awaitTurn(ctx context.Context, turn time.Duration) bool {
	term := w.raft.CurrentTerm()
	for end := time.Now().Add(turn); time.Now().Before(end) && w.cfg.Refused() <= term; {
		if !wait.Sleep(ctx, min(redialPause, time.Until(end))) {
			return false
		}
	}
	return ctx.Err() == nil
}

// goesSilent reports whether nothing arrives from a leader any more. The connections of an
// ended process close within milliseconds of each other. Data that they delivered before
// counts until they have closed.
func (w *Watcher) goesSilent(ctx context.Context, leader string) bool {
	for end := time.Now().Add(closing); w.leads(leader) && w.cfg.HeardFrom(leader, w.cfg.Scale(silence)); {
		if time.Now().After(end) || !wait.Sleep(ctx, redialPause) {
			return false
		}
	}
	return true
}

// votedForAnother returns the current term if this peer has voted for another one in it and
// no leader is known yet. Otherwise it returns 0.
func (w *Watcher) votedForAnother() uint64 {
	term, candidate, err := w.cfg.VotedFor()
	if err != nil || term != w.raft.CurrentTerm() {
		return 0
	}
	leader, _, _ := w.cfg.Leader() // the dead leader, until a candidate stands in a new term
	if leader != "" || candidate == w.cfg.RaftAddr {
		return 0
	}
	return term
}

// ResetStaleLeader makes Raft forget a leader that it still names while this peer stands
// for election.
//
// A Raft candidate accepts a leader's entry while its heartbeat timer expires, if it was
// asked to stand at once by a handover or by the death watch. It is then a candidate that
// has a leader, and Raft never clears that leader. Such late entries are those that a
// paused process finds in its sockets. If the leader is lost permanently and this peer's
// log is behind, no peer can ever be elected: this peer refuses the other one because it
// has a leader, and the other one refuses this peer because of its log. A live leader ends
// this state with its next heartbeat.
func (w *Watcher) ResetStaleLeader(ctx context.Context) error {
	tick := time.NewTicker(w.cfg.Heartbeat / 5)
	defer tick.Stop()
	var since time.Time
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		id, self, ok := w.cfg.Leader()
		switch {
		case !ok || self || w.raft.State() != raft.Candidate:
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) > w.cfg.Heartbeat:
			w.cfg.Logger.Warn("candidate still has a stale leader, resetting it", "leader", id)
			w.cfg.CallElection(recall)
			since = time.Time{}
		}
	}
}
