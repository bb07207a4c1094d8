package route

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/cluster/call"
	"github.com/holdfast-metal/holdfast/cluster/internal/peerconn"
	"github.com/holdfast-metal/holdfast/cluster/internal/read"
	"github.com/holdfast-metal/holdfast/cluster/outcome"
)

// class is the kind of outcome of a try.
type class int

const (
	final      class = iota // an answer, or an error that another try would not change
	notApplied              // nothing has happened: retry
	unknown                 // the call may have been applied
)

// unary is one call with one answer on its way to the peer that serves it.
type unary struct {
	rt     *Router
	method *method
	name   string // with its service
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
func (c *unary) write(ctx context.Context) (any, error) {
	again := c.method.replayable(c.req)
	switch {
	case again || c.method.outside:
	case c.hopped:
		c.delivery = call.ParseDelivery(incoming(ctx))
	default:
		var err error
		if c.delivery, err = call.NewDelivery(ctx, c.rt.applied(), c.rt.cfg.Before); err != nil {
			return nil, err
		}
		again = true
	}
	pause := c.rt.reader.NewPause()
	var lost error // of a try with an unknown outcome; it is returned unless a later try gets an answer
	hold := time.Now().Add(read.HoldTimeout)
	for {
		reply, kind, err := c.tryWrite(ctx, hold)
		switch {
		case kind == final:
			return reply, err
		case kind == unknown:
			lost, hold = err, time.Now().Add(read.HoldTimeout)
			if c.hopped || !again {
				return nil, lost
			}
			c.delivery = c.delivery.Repeated()
		case c.hopped:
			return nil, err
		}
		if errors.Is(err, read.ErrNoMoreTime) || !pause.Wait(ctx) {
			return nil, cmp.Or(lost, err)
		}
	}
}

func (c *unary) tryWrite(ctx context.Context, hold time.Time) (any, class, error) {
	id, err := c.rt.reader.Server(ctx, hold, c.hopped)
	if err != nil {
		return nil, notApplied, err
	}
	if id == c.rt.cfg.Self {
		reply, err := c.next(c.delivery.With(ctx), c.req)
		return reply, classOf(err), err
	}
	return c.forward(ctx, id, incoming(ctx))
}

// forward makes the call on another peer, which gets md.
func (c *unary) forward(ctx context.Context, id string, md metadata.MD) (any, class, error) {
	reply, kind, err := c.invoke(ctx, id, md)
	c.rt.forwarded(kind)
	return reply, kind, err
}

func (c *unary) invoke(ctx context.Context, id string, md metadata.MD) (any, class, error) {
	cc, err := c.rt.cfg.Conn(id)
	if err != nil {
		return nil, notApplied, c.rt.reader.Refusal(fmt.Errorf("%w: %w", outcome.ErrNoLeader, err))
	}
	ctx, stop := c.rt.reader.WhileLeads(ctx, id)
	defer stop()
	ctx, sent := peerconn.WithSent(ctx)
	md.Set(call.HeaderForwardedBy, c.rt.cfg.Self)
	md.Delete(call.HeaderDelivery) // the caller's, which is not a peer
	if c.delivery != nil {
		md.Set(call.HeaderDelivery, c.delivery.Header())
	}
	if f := c.rt.cfg.ForwardMetadata; f != nil {
		f(ctx, md)
	}
	reply := c.method.out.New().Interface()
	var header, trailer metadata.MD
	err = cc.Invoke(
		metadata.NewOutgoingContext(ctx, md),
		c.name,
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
		err := fmt.Errorf("%w: peer %s is unreachable: %s", outcome.ErrNoLeader, id, cause)
		return nil, notApplied, c.rt.reader.Refusal(err)
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
