// Package read makes reads linearizable: it returns the index that the local state must include,
// and waits for it. It must not know which call reads, nor send one to another peer.
package read

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/call"
	"github.com/holdfast-metal/holdfast/cluster/internal/readindex"
	"github.com/holdfast-metal/holdfast/cluster/internal/terms"
	"github.com/holdfast-metal/holdfast/cluster/internal/wait"
	"github.com/holdfast-metal/holdfast/cluster/outcome"
)

// Time limits of calls.
const (
	CallTimeout = 30 * time.Second       // for a call without a deadline
	HoldTimeout = 8 * time.Second        // for a call that waits for a leader
	pollLeader  = 10 * time.Millisecond  // while waiting for a leader
	maxPause    = 200 * time.Millisecond // between tries
)

// Terms are the leaderships of this peer.
type Terms interface {
	// Current returns the leadership if this peer leads and is ready.
	Current() (terms.Leadership, bool)
	// NotReady returns the reason why this peer does not, or nil.
	NotReady() error
	// Confirm returns nil if a majority has confirmed a term since the call began.
	Confirm(ctx context.Context, term uint64, ackedBy string) error
}

// State is this peer's state.
type State interface {
	Applied() uint64
	WaitApplied(ctx context.Context, index uint64) error
}

// Config holds what reads depend on.
type Config struct {
	Self string
	// Leader returns the leader that this peer knows, and whether it is this peer.
	Leader func() (id string, self, ok bool)
	// Leads reports whether this peer leads, ready or not, and Stopped whether Raft has stopped.
	Leads   func() bool
	Stopped func() bool
	// Why returns the reason why the leader, which may be unknown, could not be asked.
	Why         func(leader string) string
	CommitIndex func() uint64
	// Ask returns a read index of the leader.
	Ask func(ctx context.Context, leader string) (uint64, error)
	// Changed fires when the leader or its readiness changes.
	Changed *wait.Signal
	// Ended is closed when this peer has stopped, for the reason that Stopping returns.
	Ended    <-chan struct{}
	Stopping func() error
}

// Reader makes reads linearizable.
type Reader struct {
	cfg     Config
	terms   Terms
	state   State
	indexes *readindex.Coalescer
}

// New returns a reader that asks for indexes until life ends.
func New(life context.Context, cfg Config, t Terms, state State) *Reader {
	r := &Reader{cfg: cfg, terms: t, state: state}
	r.indexes = readindex.NewCoalescer(life, r.askReadIndex)
	return r
}

// Refusal returns the error of a call that has changed nothing.
func (r *Reader) Refusal(err error) error {
	id, _, _ := r.cfg.Leader()
	return outcome.Refusal(id, err)
}

// Prepare blocks until the local state fits the consistency of the context. Errors are
// *outcome.Errors.
func (r *Reader) Prepare(ctx context.Context) error {
	c := call.ConsistencyFrom(ctx)
	index := c.MinIndex
	if !c.Stale {
		i, err := r.Index(ctx)
		if err != nil {
			return err
		}
		index = max(index, i)
	}
	if err := r.WaitApplied(ctx, index); err != nil {
		return r.Refusal(err)
	}
	return nil
}

// FromLeader returns a read index of the leader, which is another peer. Concurrent callers share
// one request.
func (r *Reader) FromLeader(ctx context.Context) (uint64, error) { return r.indexes.Get(ctx) }

const (
	// minIndexTimeout bounds the wait for MinIndex when the caller has set no deadline.
	minIndexTimeout = 10 * time.Second
	// readIndexTimeout bounds one request for a read index.
	readIndexTimeout = 2 * time.Second
)

// WaitApplied blocks until the local state includes an index, or a timeout passes.
func (r *Reader) WaitApplied(ctx context.Context, index uint64) error {
	if r.state.Applied() >= index {
		return nil
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, minIndexTimeout)
		defer cancel()
	}
	return r.state.WaitApplied(ctx, index)
}

// Index returns a read index. It waits for a leader as forwarded calls do. Errors
// are *outcome.Errors.
func (r *Reader) Index(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	pause, hold := r.NewPause(), time.Now().Add(HoldTimeout)
	for {
		if _, err := r.Server(ctx, hold, false); err != nil {
			return 0, err
		}
		index, err := r.readIndex(ctx)
		if err == nil {
			return index, nil
		}
		if !pause.Wait(ctx) {
			return 0, r.Unread(err)
		}
	}
}

// readIndex returns the index that a linearizable read must wait for if it begins now. It
// works on any peer.
func (r *Reader) readIndex(ctx context.Context) (uint64, error) {
	if _, ok := r.terms.Current(); ok {
		return r.Confirmed(ctx, "")
	}
	if id, self, ok := r.cfg.Leader(); !ok || self {
		return 0, fmt.Errorf("%w: %s", outcome.ErrNoLeader, r.cfg.Why(id))
	}
	return r.indexes.Get(ctx)
}

// Confirmed reads the commit index and then proves that this peer led at that moment.
// The index covers the commits of earlier leaders, because it covers the first command of
// this term. From then on only commands and configurations are committed, so the state
// reaches every index up to it. The asking peer acknowledges the term itself if its request
// names it. In a cluster of three no other peer has to be asked then.
func (r *Reader) Confirmed(ctx context.Context, ackedBy string) (uint64, error) {
	now, ok := r.terms.Current()
	if !ok {
		return 0, r.terms.NotReady()
	}
	index := max(r.cfg.CommitIndex(), now.Floor)
	if err := r.terms.Confirm(ctx, now.Term, ackedBy); err != nil {
		return 0, err
	}
	return index, nil
}

// askReadIndex asks the leader for a read index. All callers that share the answer were
// waiting before it asked, so the term is read after their reads began.
func (r *Reader) askReadIndex(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, readIndexTimeout)
	defer cancel()
	id, self, ok := r.cfg.Leader()
	if !ok || self {
		return 0, fmt.Errorf("%w: %s", outcome.ErrNoLeader, r.cfg.Why(id))
	}
	ctx, stop := r.WhileLeads(ctx, id)
	defer stop()
	return r.cfg.Ask(ctx, id)
}

// Unread returns the error of a read that was not served. Its outcome is always NotApplied,
// because a read changes nothing.
func (r *Reader) Unread(err error) error {
	o, ok := errors.AsType[*outcome.Error](r.Refusal(err))
	if !ok {
		return err
	}
	return &outcome.Error{Outcome: outcome.NotApplied, Leader: o.Leader, Err: o.Err}
}

// behindTimeout is how long a follower waits for its own state before the leader serves the
// read. A follower learns of a commit at once, but may be writing the next entry to its disk. The
// wait costs less than a second call.
const behindTimeout = 10 * time.Millisecond

// CaughtUp reports whether the local state includes an index within behindTimeout.
func (r *Reader) CaughtUp(ctx context.Context, index uint64) bool {
	if r.state.Applied() >= index {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, behindTimeout)
	defer cancel()
	return r.state.WaitApplied(ctx, index) == nil
}
