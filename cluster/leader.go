package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/leader"
	"github.com/holdfast-metal/holdfast/cluster/outcome"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Work has the functions of the product that a peer calls while it runs. Each may be nil.
type Work struct {
	Tasks []leader.Task // while this peer leads
	// BeforeHandover is called when a leader is stopped. Its tasks have ended, but it still
	// leads. It has 5 s.
	BeforeHandover func(ctx context.Context)
	// Leases returns how many leases this peer keeps as the leader, and how many heartbeats
	// it receives a second, for the status.
	Leases func() (live int, rate float64)
	// BMCCalls returns how many operations on BMCs this peer has done, by provider, for the
	// status.
	BMCCalls func() []*holdfastv1.ProviderCalls
}

const (
	taskConfirmTimeout = 5 * time.Second
	reelectTimeout     = time.Second // Raft's main loop may be waiting for the disk
)

// Backoff between failures of the leader's work. Repeated failures must not cause an
// election every second. While this peer waits, it still reads and writes.
const (
	firstPause = time.Second
	lastPause  = 30 * time.Second
	longWork   = time.Minute // work that ran this long resets the backoff
)

// pauses is the backoff between a failure of the leader's work and the term that retries
// it.
type pauses struct{ last time.Duration }

// next returns how long to wait after work that ran for lasted.
func (p *pauses) next(lasted time.Duration) time.Duration {
	if lasted >= longWork {
		p.last = 0
	}
	p.last = min(max(firstPause, 2*p.last), lastPause)
	return p.last
}

// session runs the work of one leadership.
type session struct {
	term   uint64
	began  time.Time
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when everything has stopped
	err    error         // why it ended by itself; set before done is closed
}

// stop cancels the work and waits until it has ended.
func (s *session) stop(why error) {
	s.cancel(why)
	<-s.done
}

// stopBefore stops the session of an older term, and waits for it until ctx ends.
func (ts *terms) stopBefore(ctx context.Context, term uint64) error {
	cur := ts.session.Load()
	if cur == nil || cur.term >= term {
		return nil
	}
	cur.cancel(fmt.Errorf("a new leader has begun term %d", term))
	select {
	case <-cur.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop the leader tasks of term %d: %w", cur.term, ctx.Err())
	}
}

// lead follows the leadership until ctx ends. It starts a session when this peer gains the
// leadership. When it loses it, lead stops the session and waits for its end. Two gains in
// a row imply a loss between them.
func (ts *terms) lead(ctx context.Context, tasks []leader.Task) {
	var cur *session
	var term uint64 // of cur, or of the last session
	var ended <-chan struct{}
	var again <-chan time.Time
	var pause pauses
	stop := func(why error) {
		if cur != nil {
			cur.stop(why)
			ts.session.Store(nil)
			cur, ended = nil, nil
		}
	}
	start := func() {
		now, ok := ts.leading()
		if !ok {
			return // notify will report it
		}
		term = now
		cur = ts.startSession(ctx, term, tasks)
		ended = cur.done
	}
	renew := func() {
		if ts.leadsIn(term) && !ts.reelect(term) {
			again = time.After(ts.n.cfg.scale(time.Second))
		}
	}
	for {
		select {
		case gained := <-ts.notify:
			// Notifications queue up while a session is being stopped, and start uses the
			// current state, so it may be ahead of them. A notification of an earlier
			// leadership must not end this one, because its term could never be confirmed
			// again.
			if ts.leadsIn(term) {
				continue
			}
			again = nil
			ts.stepDown(term) // first, because a task may wait for a confirmation that cannot come
			stop(errors.New("leadership lost"))
			if gained {
				start()
			}
		case <-ended:
			err, lasted := cur.err, time.Since(cur.began)
			stop(nil)
			if err == nil || !ts.leadsIn(term) {
				continue
			}
			ts.n.log.Error("leader task failed, transferring leadership", "error", err)
			if err := ts.transfer(ctx); err != nil {
				ts.n.log.Warn("leadership transfer failed, will retry", "error", err)
			}
			again = time.After(ts.n.cfg.scale(pause.next(lasted)))
		case i := <-ts.pauseRequests:
			if cur == nil {
				err := ts.notReady()
				if err == nil { // it leads, but its tasks failed and have not restarted
					err = fmt.Errorf("%w yet", outcome.ErrNotLeader)
				}
				i.done <- ts.n.refusal(err)
				continue
			}
			stop(errors.New("the leader's tasks are paused"))
			err := i.do(i.ctx) //nolint:contextcheck // the caller's, which waits
			i.done <- err
			if err == nil {
				start()
			} else if ts.leadsIn(term) && ts.transfer(ctx) != nil {
				renew()
			}
		case <-again:
			again = nil
			renew()
		case <-ctx.Done():
			stop(context.Cause(ctx))
			return
		}
	}
}

// reelect ends a term by standing for the next one, because tasks do not resume in the same
// term. It calls an election at once, so the peer leads again in a moment, alone or with
// others that answer. It reports whether Raft accepted the election.
func (ts *terms) reelect(term uint64) bool {
	if _, votes := ts.n.voters(); !votes {
		return false // it is being removed and would not win
	}
	ts.n.log.Warn("no other peer took the leadership, calling an election to restart the leader's tasks", "term", term)
	return ts.n.gate.CallElection(reelectTimeout)
}

func (ts *terms) startSession(ctx context.Context, term uint64, tasks []leader.Task) *session {
	ctx, cancel := context.WithCancelCause(ctx)
	s := &session{term: term, began: time.Now(), cancel: cancel, done: make(chan struct{})}
	ts.session.Store(s) // first, or the next leader finds no session to stop and starts its tasks beside ours
	go func() {         // stop waits for it
		defer close(s.done)
		defer cancel(nil)
		err := ts.runTerm(ctx, term, tasks)
		if !ts.leadsIn(term) {
			ts.stepDown(term) // otherwise this peer stays ready: a leader that is being stopped still hands over
		}
		if ctx.Err() == nil {
			s.err = err
		}
	}()
	return s
}

// pauseRequest asks lead to run do while this peer leads and its tasks are stopped.
type pauseRequest struct {
	ctx  context.Context
	do   func(context.Context) error
	done chan error // buffered
}

// PauseTasks stops the leader's tasks, calls do, which may commit, and restarts the tasks
// from the resulting state. If do fails, the leadership is transferred, because tasks do
// not resume in the same term. If no other peer takes it, this peer begins another term. It
// works only on a leader that is ready.
func (n *Node) PauseTasks(ctx context.Context, do func(context.Context) error) error {
	i := &pauseRequest{ctx: ctx, do: do, done: make(chan error, 1)}
	select {
	case n.terms.pauseRequests <- i:
	case <-ctx.Done():
		return n.refusal(fmt.Errorf("wait for the leader's tasks: %w", ctx.Err()))
	case <-n.ended:
		return n.refusal(outcome.ErrStopping)
	}
	select {
	case err := <-i.done:
		return err
	case <-ctx.Done():
		return &outcome.Error{Outcome: outcome.Unknown, Err: fmt.Errorf("wait for the leader's tasks: %w", ctx.Err())}
	}
}
