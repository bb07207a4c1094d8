package terms

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/leader"
	"github.com/holdfast-metal/holdfast/cluster/outcome"
)

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

// EndBefore makes this peer end the leader tasks of terms before one, and waits for that until ctx
// ends.
func (t *Terms) EndBefore(ctx context.Context, term uint64) error {
	if r := t.leadership.Load(); r != nil && r.Term < term {
		t.StepDown(r.Term)
	}
	return t.stopBefore(ctx, term)
}

// stopBefore stops the session of an older term, and waits for it until ctx ends.
func (t *Terms) stopBefore(ctx context.Context, term uint64) error {
	cur := t.session.Load()
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

// Lead follows the leadership until ctx ends. It starts a session when this peer gains the
// leadership. When it loses it, Lead stops the session and waits for its end. Two gains in
// a row imply a loss between them.
func (t *Terms) Lead(ctx context.Context, tasks []leader.Task) {
	var cur *session
	var term uint64 // of cur, or of the last session
	var ended <-chan struct{}
	var again <-chan time.Time
	var pause pauses
	stop := func(why error) {
		if cur != nil {
			cur.stop(why)
			t.session.Store(nil)
			cur, ended = nil, nil
		}
	}
	start := func() {
		now, ok := t.leading()
		if !ok {
			return // Notify will report it
		}
		term = now
		cur = t.startSession(ctx, term, tasks)
		ended = cur.done
	}
	renew := func() {
		if t.LeadsIn(term) && !t.reelect(term) {
			again = time.After(t.cfg.Scale(time.Second))
		}
	}
	for {
		select {
		case gained := <-t.cfg.Notify:
			// Notifications queue up while a session is being stopped, and start uses the
			// current state, so it may be ahead of them. A notification of an earlier
			// leadership must not end this one, because its term could never be confirmed
			// again.
			if t.LeadsIn(term) {
				continue
			}
			again = nil
			t.StepDown(term) // first, because a task may wait for a confirmation that cannot come
			stop(errors.New("leadership lost"))
			if gained {
				start()
			}
		case <-ended:
			err, lasted := cur.err, time.Since(cur.began)
			stop(nil)
			if err == nil || !t.LeadsIn(term) {
				continue
			}
			t.cfg.Logger.Error("leader task failed, transferring leadership", "error", err)
			if err := t.Transfer(ctx); err != nil {
				t.cfg.Logger.Warn("leadership transfer failed, will retry", "error", err)
			}
			again = time.After(t.cfg.Scale(pause.next(lasted)))
		case i := <-t.pauseRequests:
			if cur == nil {
				err := t.NotReady()
				if err == nil { // it leads, but its tasks failed and have not restarted
					err = fmt.Errorf("%w yet", outcome.ErrNotLeader)
				}
				i.done <- t.refusal(err)
				continue
			}
			stop(errors.New("the leader's tasks are paused"))
			err := i.do(i.ctx) //nolint:contextcheck // the caller's, which waits
			i.done <- err
			if err == nil {
				start()
			} else if t.LeadsIn(term) && t.Transfer(ctx) != nil {
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
func (t *Terms) reelect(term uint64) bool {
	if _, votes := t.cfg.Voters(); !votes {
		return false // it is being removed and would not win
	}
	t.cfg.Logger.Warn("no other peer took the leadership, calling an election to restart the leader's tasks", "term", term)
	return t.cfg.CallElection(reelectTimeout)
}

func (t *Terms) startSession(ctx context.Context, term uint64, tasks []leader.Task) *session {
	ctx, cancel := context.WithCancelCause(ctx)
	s := &session{term: term, began: time.Now(), cancel: cancel, done: make(chan struct{})}
	t.session.Store(s) // first, or the next leader finds no session to stop and starts its tasks beside ours
	go func() {        // stop waits for it
		defer close(s.done)
		defer cancel(nil)
		err := t.runTerm(ctx, term, tasks)
		if !t.LeadsIn(term) {
			t.StepDown(term) // otherwise this peer stays ready: a leader that is being stopped still hands over
		}
		if ctx.Err() == nil {
			s.err = err
		}
	}()
	return s
}

// pauseRequest asks Lead to run do while this peer leads and its tasks are stopped.
type pauseRequest struct {
	ctx  context.Context
	do   func(context.Context) error
	done chan error // buffered
}

// Pause stops the leader's tasks, calls do, which may commit, and restarts the tasks
// from the resulting state. If do fails, the leadership is transferred, because tasks do
// not resume in the same term. If no other peer takes it, this peer begins another term. It
// works only on a leader that is ready.
func (t *Terms) Pause(ctx context.Context, do func(context.Context) error) error {
	i := &pauseRequest{ctx: ctx, do: do, done: make(chan error, 1)}
	select {
	case t.pauseRequests <- i:
	case <-ctx.Done():
		return t.refusal(fmt.Errorf("wait for the leader's tasks: %w", ctx.Err()))
	case <-t.life.Done():
		return t.refusal(outcome.ErrStopping)
	}
	select {
	case err := <-i.done:
		return err
	case <-ctx.Done():
		return &outcome.Error{Outcome: outcome.Unknown, Err: fmt.Errorf("wait for the leader's tasks: %w", ctx.Err())}
	}
}
