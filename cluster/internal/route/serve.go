package route

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/call"
	"github.com/holdfast-metal/holdfast/cluster/internal/read"
)

// read serves a read-only call. Its consistency is resolved once, before the handler.
func (c *unary) read(ctx context.Context) (any, error) {
	want, err := consistencyOf(ctx)
	if err != nil {
		return nil, err
	}
	if want.Stale {
		if err := c.rt.reader.WaitApplied(ctx, want.MinIndex); err != nil {
			return nil, c.rt.reader.Refusal(err)
		}
		c.rt.cfg.Read("stale")
		return c.local(ctx, want.MinIndex)
	}
	pause, hold := c.rt.reader.NewPause(), time.Now().Add(read.HoldTimeout)
	for {
		reply, kind, err := c.tryRead(ctx, hold, want.MinIndex)
		if kind == final {
			return reply, err
		}
		if err = c.rt.reader.Unread(err); c.hopped || errors.Is(err, read.ErrNoMoreTime) || !pause.Wait(ctx) {
			return nil, err
		}
	}
}

func (c *unary) tryRead(ctx context.Context, hold time.Time, atLeast uint64) (any, class, error) {
	id, err := c.rt.reader.Server(ctx, hold, c.hopped)
	if err != nil {
		return nil, notApplied, err
	}
	if id == c.rt.cfg.Self {
		index, err := c.rt.reader.Confirmed(ctx, "")
		if err == nil {
			index = max(index, atLeast)
			err = c.rt.reader.WaitApplied(ctx, index)
		}
		if err != nil {
			return nil, notApplied, err
		}
		c.rt.cfg.Read("leader")
		reply, err := c.local(ctx, index)
		return reply, final, err
	}
	index, err := c.rt.reader.FromLeader(ctx)
	if err != nil {
		return nil, notApplied, err
	}
	index = max(index, atLeast)
	if c.rt.reader.CaughtUp(ctx, index) {
		c.rt.cfg.Read("follower")
		reply, err := c.local(ctx, index)
		return reply, final, err
	}
	// Any peer may answer at this index, so the leader need not prove its leadership again.
	c.rt.cfg.Read("forwarded")
	md := incoming(ctx)
	md.Set(call.HeaderConsistency, "stale")
	md.Set(call.HeaderMinIndex, strconv.FormatUint(index, 10))
	return c.forward(ctx, id, md)
}

// local runs the handler on the local state, which includes index.
func (c *unary) local(ctx context.Context, index uint64) (any, error) {
	return c.next(call.WithConsistency(ctx, call.Consistency{Stale: true, MinIndex: index}), c.req)
}
