package route

import (
	"context"
	"errors"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/cluster/call"
	"github.com/holdfast-metal/holdfast/cluster/internal/read"
)

// answerMargin is the time between an answer and the caller's deadline.
const answerMargin = 100 * time.Millisecond

// maxIndex is more than any log has entries: a million a second for 8 years.
const maxIndex = 1 << 48

// inTime returns a context that ends before the caller's deadline, so that the answer
// arrives in time.
func inTime(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithTimeout(ctx, read.CallTimeout)
	}
	return context.WithDeadline(ctx, deadline.Add(-min(answerMargin, time.Until(deadline)/4)))
}

// consistencyOf returns the consistency that the metadata of a call requests.
func consistencyOf(ctx context.Context) (call.Consistency, error) {
	var c call.Consistency
	for _, v := range metadata.ValueFromIncomingContext(ctx, call.HeaderConsistency) {
		switch v {
		case "stale":
			c.Stale = true
		case "linearizable", "":
		default:
			return c, status.Errorf(codes.InvalidArgument, "%s is %q: want stale or linearizable", call.HeaderConsistency, v)
		}
	}
	for _, v := range metadata.ValueFromIncomingContext(ctx, call.HeaderMinIndex) {
		i, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			return c, status.Errorf(codes.InvalidArgument, "%s is %q: want a number", call.HeaderMinIndex, v)
		}
		if i > maxIndex {
			return c, status.Errorf(codes.InvalidArgument, "%s is %d: no answer has had such an index: "+
				"send the %s of an earlier answer", call.HeaderMinIndex, i, call.HeaderIndex)
		}
		c.MinIndex = max(c.MinIndex, i)
	}
	return c, nil
}

// header is the headers of answers, for as long as their values are the same.
type header struct {
	index   uint64
	leader  string
	contact int64 // milliseconds since the last contact with the leader
	md      metadata.MD
}

// header returns the headers of an answer. The caller must not change them.
func (rt *Router) header() metadata.MD {
	leader, _, _ := rt.cfg.Leader()
	index, contact := rt.applied(), rt.cfg.LastContact()
	if h := rt.last.Load(); h != nil && h.index == index && h.leader == leader && h.contact == contact {
		return h.md
	}
	h := &header{index: index, leader: leader, contact: contact, md: metadata.Pairs(
		call.HeaderIndex, strconv.FormatUint(index, 10),
		call.HeaderLeader, leader,
		call.HeaderLastContact, strconv.FormatInt(contact, 10),
	)}
	rt.last.Store(h)
	return h.md
}

// setHeaders sets the headers and trailers of the answer to a call.
func (c *unary) setHeaders(ctx context.Context) {
	if c.header == nil {
		c.header = c.rt.header()
	}
	err := grpc.SetHeader(ctx, c.header)
	if len(c.trailer) > 0 {
		err = errors.Join(err, grpc.SetTrailer(ctx, c.trailer))
	}
	if err != nil {
		c.rt.cfg.Logger.Debug("cannot set response headers", "error", err)
	}
}

// answered returns the metadata of another peer's answer without that of its transport.
func answered(md metadata.MD) metadata.MD {
	out := metadata.MD{}
	for k, v := range md {
		switch k {
		case "content-type", "date", "trailer":
		default:
			out[k] = v
		}
	}
	return out
}

// incoming returns a copy of the metadata of a call.
func incoming(ctx context.Context) metadata.MD {
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		return md
	}
	return metadata.MD{}
}
