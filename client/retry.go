package client

import (
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Invoke makes a unary call. It is tried at one address after the other until one answers or the
// context ends; a try that may have been applied is repeated only if the request is repeatable.
func (p *peers) Invoke(ctx context.Context, method string, req, reply any, opts ...grpc.CallOption) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.cfg.Timeout)
		defer cancel()
	}
	c := call{peers: p, method: method, req: req, reply: reply, opts: opts,
		repeatable: repeatable(method, req), started: time.Now()}
	return c.run(ctx)
}

// call is a unary call and what is known about it so far.
type call struct {
	peers      *peers
	method     string
	req, reply any
	opts       []grpc.CallOption
	repeatable bool

	started time.Time
	tries   int
	addr    string // of the last try that says why
	err     error  // and its error
	unknown bool   // one of the tries may have been applied
	warned  bool
}

func (c *call) run(ctx context.Context) error {
	for {
		at, peer := c.peers.pick()
		c.tries++
		result, err := c.try(ctx, peer)
		if result == answered {
			return err
		}
		if c.err == nil || ctx.Err() == nil {
			// A try that the end of the context cut off tells less than the one before it.
			c.addr, c.err = peer.addr, err
		}
		c.unknown = c.unknown || result == unknown && !isRead(c.method)
		c.peers.leave(at)
		if ctx.Err() != nil || c.unknown && !c.repeatable {
			return c.failed(ctx.Err())
		}
		c.log(ctx)
		if ended := sleep(ctx, c.peers.delay(c.tries)); ended != nil {
			return c.failed(ended)
		}
	}
}

func (c *call) try(ctx context.Context, peer *peer) (outcome, error) {
	if c.repeatable && len(c.peers.all) > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.peers.tryTimeout)
		defer cancel()
	}
	ctx, sent := withSent(c.peers.outgoing(ctx, c.method))
	var header metadata.MD
	err := peer.conn.Invoke(ctx, c.method, c.req, c.reply, append(slices.Clip(c.opts), grpc.Header(&header))...)
	c.peers.observe(header)
	return classify(err, sent.Load()), err
}

func (c *call) failed(cause error) error {
	err := c.err
	if errors.Is(cause, context.Canceled) && status.Code(err) != codes.Canceled {
		// The caller gave up: that is the code it expects, whatever the last try met.
		err = status.Error(codes.Canceled, status.Convert(err).Message())
	}
	return &CallError{Method: c.method, Addr: c.addr, Tries: c.tries, OutcomeUnknown: c.unknown, Err: err, Cause: cause}
}

// log warns once when a call takes long: whoever waits for it wants to know why.
func (c *call) log(ctx context.Context) {
	log := c.peers.cfg.Logger.With("method", c.method, "addr", c.addr, "try", c.tries, "err", status.Convert(c.err).Message())
	if !c.warned && time.Since(c.started) >= warnAfter {
		c.warned = true
		log.WarnContext(ctx, "no answer yet, trying on")
		return
	}
	log.DebugContext(ctx, "trying another peer")
}
