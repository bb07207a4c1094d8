package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Consistency is what a read asks for. The zero value asks for a linearizable read: it sees every
// write that was acknowledged before it began.
type Consistency struct {
	// Stale reads the local state as it is.
	Stale bool
	// MinIndex waits until the local state includes this index.
	MinIndex uint64
}

type consistencyKey struct{}

// WithConsistency sets what View does for calls with the context.
func WithConsistency(ctx context.Context, c Consistency) context.Context {
	return context.WithValue(ctx, consistencyKey{}, c)
}

// ConsistencyFrom returns what the context asks for.
func ConsistencyFrom(ctx context.Context) Consistency {
	c, _ := ctx.Value(consistencyKey{}).(Consistency)
	return c
}

const (
	// minIndexTimeout bounds the wait for MinIndex when the caller has set no deadline.
	minIndexTimeout = 10 * time.Second
	// readIndexTimeout bounds one question for a read index.
	readIndexTimeout = 2 * time.Second
)

// View returns the state that ctx's Consistency asks for, linearizable by default. Behind the
// interceptors that has been seen to before the handler, and View only takes the local state.
// Errors are *OutcomeErrors.
func (n *Node) View(ctx context.Context) (*fsm.View, error) {
	c := ConsistencyFrom(ctx)
	index := c.MinIndex
	if !c.Stale {
		i, err := n.readIndexHeld(ctx)
		if err != nil {
			return nil, err
		}
		index = max(index, i)
	}
	if err := n.waitApplied(ctx, index); err != nil {
		return nil, n.refusal(err)
	}
	return n.fsm.View(), nil
}

// waitApplied waits until the local state includes an index, in bounds.
func (n *Node) waitApplied(ctx context.Context, index uint64) error {
	if n.fsm.Applied() >= index {
		return nil
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, minIndexTimeout)
		defer cancel()
	}
	return n.fsm.WaitApplied(ctx, index)
}

// readIndexHeld returns a read index, and waits for a leader as calls do. Its errors are
// *OutcomeErrors.
func (n *Node) readIndexHeld(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c := &call{n: n}
	pause, hold := newPause(n), time.Now().Add(holdTimeout)
	for {
		if _, err := c.leader(ctx, hold); err != nil {
			return 0, err
		}
		index, err := n.readIndex(ctx)
		if err == nil {
			return index, nil
		}
		if !pause.wait(ctx) {
			return 0, n.unread(err)
		}
	}
}

// readIndex returns the index that a linearizable read which begins now must wait for, on any peer.
func (n *Node) readIndex(ctx context.Context) (uint64, error) {
	if _, ok := n.current(); ok {
		return n.leaderReadIndex(ctx, "")
	}
	if id, self, ok := n.Leader(); !ok || self {
		return 0, fmt.Errorf("%w: %s", ErrNoLeader, n.why(id))
	}
	return n.indexes.get(ctx)
}

// leaderReadIndex takes the commit index and then proves that this peer led when it took it. What
// other leaders have committed before is in it, because the first command of this term is. Only
// commands and configurations are committed from then on, so the state will show every index up to
// it. A peer that asks vouches for itself, if it says which term it has (empty: nobody does): in a
// cluster of three nobody else has to be asked.
func (n *Node) leaderReadIndex(ctx context.Context, voucher string) (uint64, error) {
	r, ok := n.current()
	if !ok {
		return 0, n.notReady()
	}
	index := max(n.raft.CommitIndex(), r.floor)
	if err := n.confirmTermWith(ctx, r.term, voucher); err != nil {
		return 0, err
	}
	return index, nil
}

// vouches returns the peer that asks for a read index, if it has the term of this leader and may
// vote. As it was when it asked, no later leader had its vote: the index that is taken now has what
// was acknowledged before it asked, and so before the reads began.
func (n *Node) vouches(ctx context.Context, req *internalv1.ReadIndexRequest) string {
	if r, ok := n.current(); !ok || req.GetTerm() != r.term || n.checkSelf(ctx, req.GetPeerId()) != nil {
		return ""
	}
	return req.GetPeerId()
}

// askReadIndex asks the leader. All who wait for the answer did so before: the term is read after
// their reads have begun.
func (n *Node) askReadIndex(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, readIndexTimeout)
	defer cancel()
	id, self, ok := n.Leader()
	if !ok || self {
		return 0, fmt.Errorf("%w: %s", ErrNoLeader, n.why(id))
	}
	ctx, stop := n.whileLeads(ctx, id)
	defer stop()
	c, err := n.conns.peer(id)
	if err != nil {
		return 0, err
	}
	req := &internalv1.ReadIndexRequest{PeerId: n.cfg.NodeID}
	if n.gate.admitted.Load() { // or it does not know what it voted for
		req.Term = n.raft.CurrentTerm()
	}
	r, err := c.ReadIndex(ctx, req)
	if err != nil {
		return 0, fmt.Errorf("ask leader %s for a read index: %w", id, err)
	}
	return r.GetIndex(), nil
}

// leaderGrace is how long a call to a leader may go on after another one is known: its answer may
// be on the way.
const leaderGrace = 250 * time.Millisecond

var errReplaced = errors.New("another peer leads now")

// whileLeads returns a context that ends soon after another peer has become the leader. A host that
// is gone does not close its connections.
func (n *Node) whileLeads(ctx context.Context, id string) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() { // ends with ctx
		for {
			changed := n.changed.wait()
			if now, _, ok := n.Leader(); ok && now != id {
				break
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
		t := time.NewTimer(leaderGrace)
		defer t.Stop()
		select {
		case <-t.C:
			cancel(errReplaced)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// waitReign waits until this peer leads and is ready, if it leads at all.
func (n *Node) waitReign(ctx context.Context) error {
	for {
		changed := n.changed.wait()
		if _, ok := n.current(); ok {
			return nil
		}
		if n.raft.State() != raft.Leader {
			return ErrNotLeader
		}
		t := time.NewTimer(pollLeader)
		select {
		case <-changed:
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return fmt.Errorf("%w: %w", n.notReady(), ctx.Err())
		}
		t.Stop()
	}
}

// coalescer lets calls share: while one is on its way, all that come are answered by the next one,
// which begins after them.
type coalescer struct {
	ctx context.Context // of the node
	do  func(context.Context) (uint64, error)

	mu      sync.Mutex
	running bool
	next    []chan indexAnswer
}

type indexAnswer struct {
	index uint64
	err   error
}

func (c *coalescer) get(ctx context.Context) (uint64, error) {
	ch := make(chan indexAnswer, 1)
	c.mu.Lock()
	c.next = append(c.next, ch)
	if !c.running {
		c.running = true
		go c.run() // ends when nobody waits
	}
	c.mu.Unlock()
	select {
	case a := <-ch:
		return a.index, a.err
	case <-ctx.Done():
		return 0, fmt.Errorf("wait for a read index: %w", ctx.Err())
	}
}

func (c *coalescer) run() {
	for {
		c.mu.Lock()
		batch := c.next
		c.next = nil
		c.running = len(batch) > 0
		c.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		index, err := c.do(c.ctx)
		for _, ch := range batch {
			ch <- indexAnswer{index, err}
		}
	}
}
