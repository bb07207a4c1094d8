package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/cluster/call"
	"github.com/holdfast-metal/holdfast/cluster/internal/peerconn"
	"github.com/holdfast-metal/holdfast/cluster/outcome"
)

// class is the kind of outcome of a try.
type class int

const (
	final      class = iota // an answer, or an error that another try would not change
	notApplied              // nothing has happened: retry
	unknown                 // the call may have been applied
)

// unaryCall is one unary call on its way to the peer that serves it.
type unaryCall struct {
	n      *Node
	route  *route
	method string
	req    any
	next   grpc.UnaryHandler
	hopped bool // another peer has forwarded the call
	// The delivery of a call that may be delivered again only under its id, otherwise nil.
	delivery *call.Delivery
	// Headers and trailers of the answer, if another peer sent it.
	header, trailer metadata.MD
}

// write serves a call that changes something, here if this peer leads, otherwise on the
// leader. If the leader dies meanwhile, it delivers the call to the next one: as it is if its
// method may be repeated, or else under an id with which the state does nothing twice. It repeats
// calls with effects outside of the state only if they were certainly not applied.
func (c *unaryCall) write(ctx context.Context) (any, error) {
	again := c.route.replayable(c.req)
	switch {
	case again || c.route.outside:
	case c.hopped:
		c.delivery = call.ParseDelivery(incoming(ctx))
	default:
		var err error
		if c.delivery, err = call.NewDelivery(ctx, c.n.fsm.Applied(), c.n.past.before); err != nil {
			return nil, err
		}
		again = true
	}
	pause := newPause(c.n)
	var lost error // of a try with an unknown outcome; it is returned unless a later try gets an answer
	hold := time.Now().Add(holdTimeout)
	for {
		reply, kind, err := c.tryWrite(ctx, hold)
		switch {
		case kind == final:
			return reply, err
		case kind == unknown:
			lost, hold = err, time.Now().Add(holdTimeout)
			if c.hopped || !again {
				return nil, lost
			}
			c.delivery = c.delivery.Repeated()
		case c.hopped:
			return nil, err
		}
		if errors.Is(err, errNoMoreTime) || !pause.wait(ctx) {
			return nil, cmp.Or(lost, err)
		}
	}
}

// errNoMoreTime is wrapped by errors that leave no time for another try.
var errNoMoreTime = errors.New("no time left")

// lastTry is an error that leaves no time for another try. Callers see its cause alone.
type lastTry struct{ error }

// Unwrap returns the cause and errNoMoreTime.
func (e lastTry) Unwrap() []error { return []error{e.error, errNoMoreTime} }

func (c *unaryCall) tryWrite(ctx context.Context, hold time.Time) (any, class, error) {
	id, err := c.leader(ctx, hold)
	if err != nil {
		return nil, notApplied, err
	}
	if id == c.n.cfg.NodeID {
		reply, err := c.next(c.delivery.With(ctx), c.req)
		return reply, classOf(err), err
	}
	return c.forward(ctx, id, incoming(ctx))
}

// leader returns the peer that serves the call: this one if it leads and is ready,
// otherwise the known leader. It waits for one until hold. A forwarded call is served here
// or not at all.
func (c *unaryCall) leader(ctx context.Context, hold time.Time) (string, error) {
	if id, ok := c.target(); ok {
		return id, nil
	}
	ctx, cancel := context.WithDeadline(ctx, hold)
	defer cancel()
	if c.hopped {
		if err := c.n.reader.waitReady(ctx); err != nil {
			return "", c.n.refusal(err)
		}
		return c.n.cfg.NodeID, nil
	}
	for {
		changed := c.n.changed.Wait()
		if id, ok := c.target(); ok {
			return id, nil
		}
		t := time.NewTimer(pollLeader)
		select {
		case <-changed:
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			id, _, _ := c.n.Leader()
			return "", c.n.refusal(lastTry{fmt.Errorf("%w: %s", outcome.ErrNoLeader, c.n.router.why(id))})
		case <-c.n.ended:
			t.Stop()
			// This peer learns of no leader any more, so the caller should use another
			// peer.
			return "", c.n.refusal(lastTry{fmt.Errorf("%w: %w", outcome.ErrNoLeader, c.n.stopping())})
		}
		t.Stop()
	}
}

// target returns the peer that can serve the call now. ok is false if there is none.
func (c *unaryCall) target() (id string, ok bool) {
	if _, leads := c.n.terms.current(); leads {
		return c.n.cfg.NodeID, true
	}
	id, self, ok := c.n.Leader()
	return id, ok && !self && !c.hopped
}

// forward makes the call on another peer, which gets md.
func (c *unaryCall) forward(ctx context.Context, id string, md metadata.MD) (any, class, error) {
	reply, kind, err := c.invoke(ctx, id, md)
	c.n.metrics.forwarded(kind)
	return reply, kind, err
}

func (c *unaryCall) invoke(ctx context.Context, id string, md metadata.MD) (any, class, error) {
	cc, err := c.n.conns.Get(id)
	if err != nil {
		return nil, notApplied, c.n.refusal(fmt.Errorf("%w: %w", outcome.ErrNoLeader, err))
	}
	ctx, stop := c.n.reader.whileLeads(ctx, id)
	defer stop()
	ctx, sent := peerconn.WithSent(ctx)
	md.Set(call.HeaderForwardedBy, c.n.cfg.NodeID)
	md.Delete(call.HeaderDelivery) // the caller's, which is not a peer
	if c.delivery != nil {
		md.Set(call.HeaderDelivery, c.delivery.Header())
	}
	if f := c.n.cfg.ForwardMetadata; f != nil {
		f(ctx, md)
	}
	reply := c.route.out.New().Interface()
	var header, trailer metadata.MD
	err = cc.Invoke(
		metadata.NewOutgoingContext(ctx, md),
		c.method,
		c.req,
		reply,
		grpc.Header(&header),
		grpc.Trailer(&trailer),
	)
	kind := classOf(err)
	broken := false
	switch status.Code(err) {
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded:
		// The leader reports its own outcomes. Without one, the request or the answer was
		// lost on the way.
		broken = outcome.Reason(err) == ""
	}
	switch {
	case broken && !sent.Load():
		cc.ResetConnectBackoff() // so that the next try does not wait for the backoff
		cause := status.Convert(err).Message()
		return nil, notApplied, c.n.refusal(fmt.Errorf("%w: peer %s is unreachable: %s", outcome.ErrNoLeader, id, cause))
	case broken:
		err := fmt.Errorf("call to leader %s failed: %s", id, brokenBy(ctx, err))
		return nil, unknown, &outcome.Error{Outcome: outcome.Unknown, Leader: id, Err: err}
	case kind == final:
		c.header, c.trailer = answered(header), answered(trailer)
	}
	if err != nil {
		return nil, kind, err
	}
	return reply, final, nil
}

// brokenBy returns the cause of a broken call to another peer.
func brokenBy(ctx context.Context, err error) string {
	if cause := context.Cause(ctx); cause != nil {
		return cause.Error()
	}
	return status.Convert(err).Message()
}

// classOf returns the class of an error that a handler returned, here or on another peer.
func classOf(err error) class {
	switch outcome.Reason(err) {
	case outcome.ReasonNotApplied, outcome.ReasonNoLeader:
		return notApplied
	case outcome.ReasonOutcomeUnknown:
		return unknown
	}
	return final
}

// behindTimeout is how long a follower waits for its own state before the leader serves the
// read. A follower learns of a commit at once, but may be writing the next entry to its disk. The
// wait costs less than a second call.
const behindTimeout = 10 * time.Millisecond

// read serves a read-only call. Its consistency is resolved once, before the handler.
func (c *unaryCall) read(ctx context.Context) (any, error) {
	want, err := consistencyOf(ctx)
	if err != nil {
		return nil, err
	}
	if want.Stale {
		if err := c.n.reader.waitApplied(ctx, want.MinIndex); err != nil {
			return nil, c.n.refusal(err)
		}
		c.n.metrics.read("stale")
		return c.local(ctx, want.MinIndex)
	}
	pause, hold := newPause(c.n), time.Now().Add(holdTimeout)
	for {
		reply, kind, err := c.tryRead(ctx, hold, want.MinIndex)
		if kind == final {
			return reply, err
		}
		if err = c.n.router.unread(err); c.hopped || errors.Is(err, errNoMoreTime) || !pause.wait(ctx) {
			return nil, err
		}
	}
}

func (c *unaryCall) tryRead(ctx context.Context, hold time.Time, atLeast uint64) (any, class, error) {
	id, err := c.leader(ctx, hold)
	if err != nil {
		return nil, notApplied, err
	}
	if id == c.n.cfg.NodeID {
		index, err := c.n.reader.leaderReadIndex(ctx, "")
		if err == nil {
			index = max(index, atLeast)
			err = c.n.reader.waitApplied(ctx, index)
		}
		if err != nil {
			return nil, notApplied, err
		}
		c.n.metrics.read("leader")
		reply, err := c.local(ctx, index)
		return reply, final, err
	}
	index, err := c.n.reader.indexes.Get(ctx)
	if err != nil {
		return nil, notApplied, err
	}
	index = max(index, atLeast)
	if c.n.router.caughtUp(ctx, index) {
		c.n.metrics.read("follower")
		reply, err := c.local(ctx, index)
		return reply, final, err
	}
	// Any peer may answer at this index, so the leader need not prove its leadership again.
	c.n.metrics.read("forwarded")
	md := incoming(ctx)
	md.Set(call.HeaderConsistency, "stale")
	md.Set(call.HeaderMinIndex, strconv.FormatUint(index, 10))
	return c.forward(ctx, id, md)
}

// unread returns the error of a read that was not served. Its outcome is always NotApplied,
// because a read changes nothing.
func (rt *router) unread(err error) error {
	o, ok := errors.AsType[*outcome.Error](rt.n.refusal(err))
	if !ok {
		return err
	}
	return &outcome.Error{Outcome: outcome.NotApplied, Leader: o.Leader, Err: o.Err}
}

// caughtUp reports whether the local state includes an index within behindTimeout.
func (rt *router) caughtUp(ctx context.Context, index uint64) bool {
	if rt.n.fsm.Applied() >= index {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, behindTimeout)
	defer cancel()
	return rt.n.fsm.WaitApplied(ctx, index) == nil
}

// local runs the handler on the local state, which includes index.
func (c *unaryCall) local(ctx context.Context, index uint64) (any, error) {
	return c.next(call.WithConsistency(ctx, call.Consistency{Stale: true, MinIndex: index}), c.req)
}

// pause is the exponential backoff between tries. A change of the leader ends it early.
type pause struct {
	n    *Node
	next time.Duration
}

func newPause(n *Node) *pause { return &pause{n: n, next: pollLeader} }

// wait reports whether there is time for another try.
func (p *pause) wait(ctx context.Context) bool {
	t := time.NewTimer(p.next)
	defer t.Stop()
	p.next = min(2*p.next, maxPause)
	select {
	case <-p.n.changed.Wait():
	case <-t.C:
	case <-ctx.Done():
	case <-p.n.ended:
		return false
	}
	return ctx.Err() == nil && p.n.raft.State() != raft.Shutdown
}

// past remembers which index the state had some time ago.
type past struct {
	mu     sync.Mutex
	points []point // oldest first
}

// point is the index of the applied state at a time.
type point struct {
	at    time.Time
	index uint64
}

// The number of points that are kept, and the least time between two.
const (
	pastPoints = 180
	pastEvery  = time.Second
)

// note remembers the index of the state.
func (p *past) note(at time.Time, index uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.points); n > 0 && at.Sub(p.points[n-1].at) < pastEvery {
		return
	}
	if len(p.points) == pastPoints {
		p.points = p.points[:copy(p.points, p.points[1:])]
	}
	p.points = append(p.points, point{at, index})
}

// before returns an index that was applied by a time, so that every command proposed later has a
// higher one. It is 0 if this peer does not know.
func (p *past) before(at time.Time) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range slices.Backward(p.points) {
		if !o.at.After(at) {
			return o.index
		}
	}
	return 0
}
