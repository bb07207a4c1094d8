package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	"golang.org/x/sync/errgroup"
)

// LeaderTask is work that only the leader does.
type LeaderTask interface {
	// Run does it until ctx ends, which is with the leadership. An error ends the leadership.
	Run(ctx context.Context, t Term) error
}

// Term is one leadership.
type Term struct {
	// Epoch is the Raft term; the state refuses commands of an older one.
	Epoch   uint64
	confirm func(context.Context) error
}

// NewTerm returns a Term for tests of leader tasks.
func NewTerm(epoch uint64, confirm func(context.Context) error) Term {
	return Term{Epoch: epoch, confirm: confirm}
}

// Confirm returns nil only if a majority has confirmed after the call that the term is current.
// Call it right before each effect outside of the cluster: a leader that was paused may have been
// replaced. It takes one round trip, and at most 5 s.
func (t Term) Confirm(ctx context.Context) error {
	if t.confirm == nil {
		return errors.New("term was not given by a leader")
	}
	return t.confirm(ctx)
}

const (
	taskConfirmTimeout = 5 * time.Second
	standAgainTimeout  = time.Second // Raft's main loop may be at the disk
)

// Work that fails time and again must not make an election each second: while this peer waits, it
// goes on to read and write.
const (
	firstPause = time.Second
	lastPause  = 30 * time.Second
	longWork   = time.Minute // what lasted so long has not failed again, but anew
)

// pauses are those between a failure of the leader's work and the term in which it begins again.
type pauses struct{ last time.Duration }

// next returns how long to wait after work that lasted so long.
func (p *pauses) next(lasted time.Duration) time.Duration {
	if lasted >= longWork {
		p.last = 0
	}
	p.last = min(max(firstPause, 2*p.last), lastPause)
	return p.last
}

// reign is the leadership that is ready: its first command has been applied here.
type reign struct {
	term  uint64
	floor uint64 // the index of its first command
}

// current returns the reign when this peer leads and is ready.
func (n *Node) current() (reign, bool) {
	r := n.reign.Load()
	if r == nil || !n.leadsIn(r.term) {
		return reign{}, false
	}
	return *r, true
}

// leadsIn reports whether this peer leads in a term in which it has led before: nobody leads twice
// in one.
func (n *Node) leadsIn(term uint64) bool {
	return n.raft.State() == raft.Leader && n.raft.CurrentTerm() == term
}

// leading returns the term in which this peer leads.
func (n *Node) leading() (uint64, bool) {
	term := n.raft.CurrentTerm() // read before and after: it may lose, and stand in another one, meanwhile
	return term, n.raft.State() == raft.Leader && n.raft.CurrentTerm() == term
}

// notReady reports why this peer cannot take commands.
func (n *Node) notReady() error {
	if _, ok := n.current(); ok {
		return nil
	}
	if n.raft.State() == raft.Leader {
		return fmt.Errorf("%w yet: it is taking over", ErrNotLeader)
	}
	return ErrNotLeader
}

// session is the work of one leadership.
type session struct {
	term   uint64
	began  time.Time
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when everything has stopped
	err    error         // why it ended by itself; set before done is closed
}

// stop ends the work and waits for it.
func (s *session) stop(why error) {
	s.cancel(why)
	<-s.done
}

// sessions holds the running session, for those who must stop it from outside.
type sessions struct {
	mu  sync.Mutex
	cur *session
}

func (s *sessions) set(cur *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cur = cur
}

// stopBefore stops the session of an older term and waits for it as long as ctx lasts.
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

// lead follows the leadership until ctx ends: it starts the work when it is gained, and stops it
// and waits when it is lost. Two gains in a row are a loss between.
func (n *Node) lead(ctx context.Context, tasks []LeaderTask) {
	var cur *session
	var term uint64 // of cur, or of the work that was the last
	var ended <-chan struct{}
	var again <-chan time.Time
	var pause pauses
	stop := func(why error) {
		if cur != nil {
			cur.stop(why)
			n.sessions.set(nil)
			cur, ended = nil, nil
		}
	}
	start := func() {
		now, ok := n.leading()
		if !ok {
			return // it will be told
		}
		term = now
		cur = n.startSession(ctx, term, tasks)
		ended = cur.done
		n.sessions.set(cur)
	}
	renew := func() {
		if n.leadsIn(term) && !n.standAgain(term) {
			again = time.After(n.cfg.scale(time.Second))
		}
	}
	for {
		select {
		case gained := <-n.notify:
			// News wait while work is being stopped, and start goes by what is so when it comes to
			// them: it may be there first. What they tell of an earlier leadership must not end
			// this one, whose term could never be confirmed again.
			if n.leadsIn(term) {
				continue
			}
			again = nil
			n.dethrone(term) // first: a task may wait for a confirmation that cannot come
			stop(errors.New("the leadership is lost"))
			if gained {
				start()
			}
		case <-ended:
			err, lasted := cur.err, time.Since(cur.began)
			stop(nil)
			if err == nil || !n.leadsIn(term) {
				continue
			}
			n.log.Error("leader work has failed: giving the leadership away", "error", err)
			if err := n.transfer(ctx); err != nil {
				n.log.Warn("keeping the leadership: trying again soon", "error", err)
			}
			again = time.After(n.cfg.scale(pause.next(lasted)))
		case i := <-n.interludes:
			if cur == nil {
				err := n.notReady()
				if err == nil { // it leads, and its work has failed and is about to begin again
					err = fmt.Errorf("%w yet", ErrNotLeader)
				}
				i.done <- n.refusal(err)
				continue
			}
			stop(errors.New("the leader's work is interrupted on purpose"))
			err := i.do(i.ctx) //nolint:contextcheck // of the caller, who waits
			i.done <- err
			if err == nil {
				start()
			} else if n.leadsIn(term) && n.transfer(ctx) != nil {
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

// standAgain ends a term for the next one, in which the work can go on: tasks do not take up in the
// same term what they left open. It stands at once, so that alone, or with others that answer, it
// leads again in a moment. It says whether Raft took it.
func (n *Node) standAgain(term uint64) bool {
	if !slices.ContainsFunc(n.servers(), n.isSelfVoter) {
		return false // it is on its way out, and would win nothing
	}
	n.log.Warn("nobody else leads: standing for election again, for a term in which the leader's work can begin", "term", term)
	return n.gate.callElection(standAgainTimeout)
}

func (n *Node) startSession(ctx context.Context, term uint64, tasks []LeaderTask) *session {
	ctx, cancel := context.WithCancelCause(ctx)
	s := &session{term: term, began: time.Now(), cancel: cancel, done: make(chan struct{})}
	go func() { // stop waits for it
		defer close(s.done)
		defer cancel(nil)
		err := n.reignOver(ctx, term, tasks)
		if !n.leadsIn(term) {
			n.dethrone(term) // else the reign goes on: a leader that stops on purpose still hands over
		}
		if ctx.Err() == nil {
			s.err = err
		}
	}()
	return s
}

// dethrone makes this peer refuse what only a ready leader may do.
func (n *Node) dethrone(term uint64) {
	if r := n.reign.Load(); r != nil && r.term <= term {
		n.reign.Store(nil)
	}
	n.confirmer.end(term + 1)
	n.changed.fire()
}

// reignOver does all the work of one leadership.
func (n *Node) reignOver(ctx context.Context, term uint64, tasks []LeaderTask) error {
	start := time.Now()
	floor, err := n.establish(ctx, term)
	if err != nil {
		return fmt.Errorf("establish term %d: %w", term, err)
	}
	n.reign.Store(&reign{term: term, floor: floor})
	n.changed.fire()
	n.log.Info("leading", "term", term, "index", floor, "took", time.Since(start))

	// Tasks of an old leader that has not noticed yet end before ours begin.
	n.standDownOthers(ctx, term)
	t := Term{Epoch: term, confirm: func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, taskConfirmTimeout) // a task that forgets its context must not hold up the next leader
		defer cancel()
		return n.confirmTerm(ctx, term)
	}}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return n.reconcileMembers(gctx, term) })
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
func (n *Node) confirmTerm(ctx context.Context, term uint64) error {
	return n.confirmTermWith(ctx, term, "")
}

// confirmTermWith is confirmTerm with the word of a peer that has the term, as it said after the
// call began. Empty: of none.
func (n *Node) confirmTermWith(ctx context.Context, term uint64, voucher string) error {
	if r, ok := n.current(); !ok || r.term != term {
		return fmt.Errorf("%w in term %d any more", ErrNotLeader, term)
	}
	if err := n.confirmer.confirm(ctx, term, voucher); err != nil {
		return fmt.Errorf("confirm term %d with a majority: %w", term, err)
	}
	if r, ok := n.current(); !ok || r.term != term {
		return fmt.Errorf("%w in term %d any more", ErrNotLeader, term)
	}
	return nil
}
