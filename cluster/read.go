package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/cluster/call"
	"github.com/holdfast-metal/holdfast/cluster/internal/readindex"
	"github.com/holdfast-metal/holdfast/cluster/outcome"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

const (
	// minIndexTimeout bounds the wait for MinIndex when the caller has set no deadline.
	minIndexTimeout = 10 * time.Second
	// readIndexTimeout bounds one request for a read index.
	readIndexTimeout = 2 * time.Second
)

// reader makes reads linearizable.
type reader struct {
	n *Node

	indexes *readindex.Coalescer
}

// View returns the state with the context's Consistency, which defaults to linearizable.
// Behind the interceptors that was ensured before the handler, so View only returns the
// local state. Errors are *outcome.Errors.
func (n *Node) View(ctx context.Context) (*fsm.View, error) {
	c := call.ConsistencyFrom(ctx)
	index := c.MinIndex
	if !c.Stale {
		i, err := n.reader.readIndexHeld(ctx)
		if err != nil {
			return nil, err
		}
		index = max(index, i)
	}
	if err := n.reader.waitApplied(ctx, index); err != nil {
		return nil, n.refusal(err)
	}
	return n.fsm.View(), nil
}

// waitApplied blocks until the local state includes an index, or a timeout passes.
func (rd *reader) waitApplied(ctx context.Context, index uint64) error {
	if rd.n.fsm.Applied() >= index {
		return nil
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, minIndexTimeout)
		defer cancel()
	}
	return rd.n.fsm.WaitApplied(ctx, index)
}

// readIndexHeld returns a read index. It waits for a leader as forwarded calls do. Errors
// are *outcome.Errors.
func (rd *reader) readIndexHeld(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c := &unaryCall{n: rd.n}
	pause, hold := newPause(rd.n), time.Now().Add(holdTimeout)
	for {
		if _, err := c.leader(ctx, hold); err != nil {
			return 0, err
		}
		index, err := rd.readIndex(ctx)
		if err == nil {
			return index, nil
		}
		if !pause.wait(ctx) {
			return 0, rd.n.router.unread(err)
		}
	}
}

// readIndex returns the index that a linearizable read must wait for if it begins now. It
// works on any peer.
func (rd *reader) readIndex(ctx context.Context) (uint64, error) {
	if _, ok := rd.n.terms.current(); ok {
		return rd.leaderReadIndex(ctx, "")
	}
	if id, self, ok := rd.n.Leader(); !ok || self {
		return 0, fmt.Errorf("%w: %s", outcome.ErrNoLeader, rd.n.router.why(id))
	}
	return rd.indexes.Get(ctx)
}

// leaderReadIndex reads the commit index and then proves that this peer led at that moment.
// The index covers the commits of earlier leaders, because it covers the first command of
// this term. From then on only commands and configurations are committed, so the state
// reaches every index up to it. The asking peer acknowledges the term itself if its request
// names it: see ackingPeer. In a cluster of three no other peer has to be asked then.
func (rd *reader) leaderReadIndex(ctx context.Context, ackedBy string) (uint64, error) {
	r, ok := rd.n.terms.current()
	if !ok {
		return 0, rd.n.terms.notReady()
	}
	index := max(rd.n.raft.CommitIndex(), r.floor)
	if err := rd.n.terms.confirmTerm(ctx, r.term, ackedBy); err != nil {
		return 0, err
	}
	return index, nil
}

// ackingPeer returns the id of the peer that asks for a read index, if it has this leader's
// term and may vote; otherwise "". When it asked, it had voted for no later leader. So an
// index that is read now covers everything acknowledged before it asked, which was before
// its reads began.
func (rd *reader) ackingPeer(ctx context.Context, req *internalv1.ReadIndexRequest) string {
	r, ok := rd.n.terms.current()
	if !ok || req.GetTerm() != r.term || rd.n.router.checkSelf(ctx, req.GetPeerId()) != nil {
		return ""
	}
	return req.GetPeerId()
}

// askReadIndex asks the leader for a read index. All callers that share the answer were
// waiting before it asked, so the term is read after their reads began.
func (rd *reader) askReadIndex(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, readIndexTimeout)
	defer cancel()
	id, self, ok := rd.n.Leader()
	if !ok || self {
		return 0, fmt.Errorf("%w: %s", outcome.ErrNoLeader, rd.n.router.why(id))
	}
	ctx, stop := rd.whileLeads(ctx, id)
	defer stop()
	c, err := rd.n.conns.Peer(id)
	if err != nil {
		return 0, err
	}
	req := &internalv1.ReadIndexRequest{PeerId: rd.n.cfg.NodeID}
	if rd.n.gate.Admitted() { // otherwise it has forgotten its votes
		req.Term = rd.n.raft.CurrentTerm()
	}
	r, err := c.ReadIndex(ctx, req)
	if err != nil {
		return 0, fmt.Errorf("get a read index from leader %s: %w", id, err)
	}
	return r.GetIndex(), nil
}

// leaderGrace is how long a call to a leader may continue once another leader is known,
// because its answer may be in transit.
const leaderGrace = 250 * time.Millisecond

var errReplaced = errors.New("another peer leads now")

// whileLeads returns a context that is canceled soon after another peer has become the
// leader. A host that vanished does not close its connections, so a call to it would hang.
func (rd *reader) whileLeads(ctx context.Context, id string) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() { // ends with ctx
		for {
			changed := rd.n.changed.Wait()
			if now, _, ok := rd.n.Leader(); ok && now != id {
				break
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-time.After(leaderGrace):
			cancel(errReplaced)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// waitReady blocks until this peer is ready to lead. It returns ErrNotLeader if it does not
// lead.
func (rd *reader) waitReady(ctx context.Context) error {
	for {
		changed := rd.n.changed.Wait()
		if _, ok := rd.n.terms.current(); ok {
			return nil
		}
		if rd.n.raft.State() != raft.Leader {
			return outcome.ErrNotLeader
		}
		select {
		case <-changed:
		case <-time.After(pollLeader):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", rd.n.terms.notReady(), ctx.Err())
		}
	}
}

// leaderlessLimit is how long a stream that is not stale continues without a known leader,
// times the multiplier. Elections take less.
const leaderlessLimit = 5 * time.Second

var errLostContact = errors.New("this peer has lost contact with the cluster")

// whileConnected returns a context that is canceled when this peer has known no leader for
// leaderlessLimit. Otherwise a stream on an isolated peer would stay silent forever,
// although its client could use another peer.
func (rt *router) whileConnected(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() { // ends with ctx
		for {
			changed := rt.n.changed.Wait()
			var expired <-chan time.Time
			if since := rt.n.leaderless.Load(); since != nil {
				expired = time.After(time.Until(since.Add(rt.n.cfg.scale(leaderlessLimit))))
			}
			select {
			case <-changed:
			case <-expired:
				cancel(errLostContact)
				return
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// lostContact returns the error of a stream that whileConnected has ended. Other errors are
// returned unchanged.
func (rt *router) lostContact(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errLostContact) {
		return rt.n.refusal(fmt.Errorf("%w: %w: %s", outcome.ErrNoLeader, errLostContact, rt.why("")))
	}
	return err
}
