package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-metal/holdfast/cluster/internal/readindex"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// LeaderTask is work that only the leader does.
type LeaderTask interface {
	// Run works until ctx ends, which it does with the leadership. An error ends the
	// leadership.
	Run(ctx context.Context, t Term) error
}

// Term is one leadership.
type Term struct {
	// Epoch is the Raft term. The state refuses commands of an older epoch.
	Epoch   uint64
	confirm func(context.Context) error
}

// NewTerm returns a Term for tests of leader tasks.
func NewTerm(epoch uint64, confirm func(context.Context) error) Term {
	return Term{Epoch: epoch, confirm: confirm}
}

// Confirm returns nil only if a majority confirmed, after the call began, that the term is
// current. Call it right before each external effect: a leader that was paused may have
// been replaced. It takes one round trip, and at most 5 s.
func (t Term) Confirm(ctx context.Context) error {
	if t.confirm == nil {
		return errors.New("term does not belong to a leader")
	}
	return t.confirm(ctx)
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

// terms are the leaderships of this peer: it starts and ends the work of a term, proves that a term
// is current, and hands the leadership over.
type terms struct {
	n *Node

	notify        chan bool // leadership changes, from Raft
	leadership    atomic.Pointer[leadership]
	sessions      sessions
	confirmer     *readindex.Confirmer
	pauseRequests chan *pauseRequest // requests for lead to pause the tasks
	handingOver   atomic.Bool        // a transfer is running, so sendsTo stops retries that would block it
}

// leadership is a term that is ready: this peer has applied the term's first command.
type leadership struct {
	term  uint64
	floor uint64 // the index of its first command
}

// current returns the leadership if this peer leads and is ready.
func (ts *terms) current() (leadership, bool) {
	r := ts.leadership.Load()
	if r == nil || !ts.leadsIn(r.term) {
		return leadership{}, false
	}
	return *r, true
}

// leadsIn reports whether this peer still leads in a term that it has led. No peer leads
// twice in one term.
func (ts *terms) leadsIn(term uint64) bool {
	return ts.n.raft.State() == raft.Leader && ts.n.raft.CurrentTerm() == term
}

// leading returns the term in which this peer leads.
func (ts *terms) leading() (uint64, bool) {
	term := ts.n.raft.CurrentTerm() // read before and after, because it may lose and stand in another term in between
	return term, ts.n.raft.State() == raft.Leader && ts.n.raft.CurrentTerm() == term
}

// notReady returns the reason why this peer cannot accept commands, or nil if it can.
func (ts *terms) notReady() error {
	if _, ok := ts.current(); ok {
		return nil
	}
	if ts.n.raft.State() == raft.Leader {
		return fmt.Errorf("%w yet: it is taking over", ErrNotLeader)
	}
	return ErrNotLeader
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

// sessions holds the running session, so that it can be stopped from outside.
type sessions struct {
	mu  sync.Mutex
	cur *session
}

func (s *sessions) set(cur *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cur = cur
}

// stopBefore stops the session of an older term, and waits for it until ctx ends.
func (s *sessions) stopBefore(ctx context.Context, term uint64) error {
	s.mu.Lock()
	cur := s.cur
	s.mu.Unlock()
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
func (ts *terms) lead(ctx context.Context, tasks []LeaderTask) {
	var cur *session
	var term uint64 // of cur, or of the last session
	var ended <-chan struct{}
	var again <-chan time.Time
	var pause pauses
	stop := func(why error) {
		if cur != nil {
			cur.stop(why)
			ts.sessions.set(nil)
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
					err = fmt.Errorf("%w yet", ErrNotLeader)
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
	if !slices.ContainsFunc(ts.n.servers(), ts.n.isSelfVoter) {
		return false // it is being removed and would not win
	}
	ts.n.log.Warn("no other peer took the leadership, calling an election to restart the leader's tasks", "term", term)
	return ts.n.gate.CallElection(reelectTimeout)
}

func (ts *terms) startSession(ctx context.Context, term uint64, tasks []LeaderTask) *session {
	ctx, cancel := context.WithCancelCause(ctx)
	s := &session{term: term, began: time.Now(), cancel: cancel, done: make(chan struct{})}
	ts.sessions.set(s) // first, or the next leader finds no session to stop and starts its tasks beside ours
	go func() {        // stop waits for it
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

// stepDown makes this peer refuse everything that only a ready leader may do.
func (ts *terms) stepDown(term uint64) {
	if r := ts.leadership.Load(); r != nil && r.term <= term {
		ts.leadership.Store(nil)
	}
	ts.confirmer.End(term + 1)
	ts.n.changed.Fire()
}

// runTerm does the work of one term.
func (ts *terms) runTerm(ctx context.Context, term uint64, tasks []LeaderTask) error {
	start := time.Now()
	floor, err := ts.establish(ctx, term)
	if err != nil {
		return fmt.Errorf("establish term %d: %w", term, err)
	}
	ts.leadership.Store(&leadership{term: term, floor: floor})
	ts.n.changed.Fire()
	ts.n.log.Info("leading", "term", term, "index", floor, "took", time.Since(start))

	// Tasks of an old leader that has not noticed yet must end before ours begin.
	ts.standDownOthers(ctx, term)
	if err := ctx.Err(); err != nil {
		return err // it has not waited for them, so that no task of this term may begin
	}
	t := Term{Epoch: term, confirm: func(ctx context.Context) error {
		// A task that ignores its context must not hold up the next leader.
		ctx, cancel := context.WithTimeout(ctx, taskConfirmTimeout)
		defer cancel()
		return ts.confirmTerm(ctx, term)
	}}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return ts.n.membership.reconcileMembers(gctx, term) })
	for _, task := range tasks {
		g.Go(func() error { return task.Run(gctx, t) })
	}
	err = g.Wait()
	if err == nil {
		<-ctx.Done()
	}
	return err
}

// confirmTerm implements Term.Confirm.
func (ts *terms) confirmTerm(ctx context.Context, term uint64) error {
	return ts.confirmTermWith(ctx, term, "")
}

// confirmTermWith is confirmTerm with an acknowledgement that already exists: the peer
// ackedBy reported, after the call began, that it has the term. ackedBy may be empty.
func (ts *terms) confirmTermWith(ctx context.Context, term uint64, ackedBy string) error {
	if r, ok := ts.current(); !ok || r.term != term {
		return fmt.Errorf("%w in term %d any more", ErrNotLeader, term)
	}
	if err := ts.confirmer.Confirm(ctx, term, ackedBy); err != nil {
		return fmt.Errorf("confirm term %d with a quorum: %w", term, err)
	}
	if r, ok := ts.current(); !ok || r.term != term {
		return fmt.Errorf("%w in term %d any more", ErrNotLeader, term)
	}
	return nil
}

// askConfirm returns nil if a peer confirms that it still has the term.
func (ts *terms) askConfirm(ctx context.Context, id string, term uint64) error {
	c, err := ts.n.conns.Peer(id)
	if err != nil {
		return err
	}
	r, err := c.Confirm(ctx, &internalv1.ConfirmRequest{Term: term})
	if err != nil {
		return err
	}
	if r.GetPeerId() != id || r.GetTerm() != term {
		return fmt.Errorf("peer %s has term %d", r.GetPeerId(), r.GetTerm())
	}
	return nil
}
