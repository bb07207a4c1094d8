package client

import (
	"context"
	"strconv"

	"google.golang.org/grpc/metadata"
)

// Metadata keys of reads and their responses.
const (
	HeaderConsistency = "holdfast-consistency"     // request: "stale" reads the peer's own state
	HeaderMinIndex    = "holdfast-min-index"       // request: the minimum Raft index of the state
	HeaderIndex       = "holdfast-index"           // response: the Raft index of the state that was read
	HeaderLeader      = "holdfast-leader"          // response: the leader's peer id
	HeaderLastContact = "holdfast-last-contact-ms" // response: time since the peer last heard from the leader
)

// Consistency is how fresh a read must be. The zero value is linearizable: the response
// includes every write that was acknowledged to any client before the call.
type Consistency struct {
	// Stale reads the state of the serving peer, without a round trip to the leader. The
	// client asks for at least the highest index it has seen, so it always reads its own
	// writes.
	Stale bool
	// MinIndex is the Raft index that the state must have reached. Zero means any.
	MinIndex uint64
}

type consistencyKey struct{}

// WithConsistency returns a context whose reads use c.
func WithConsistency(ctx context.Context, c Consistency) context.Context {
	return context.WithValue(ctx, consistencyKey{}, c)
}

// HeaderCall is the metadata key that identifies a write, so that peers to which it is sent in turn
// apply it once: 16 random bytes in base64url, a semicolon, and the milliseconds since the first
// try.
const HeaderCall = "holdfast-call"

// outgoing adds the consistency to the metadata if the method is a read.
func (p *peers) outgoing(ctx context.Context, method string) context.Context {
	if !isRead(method) {
		return ctx
	}
	c, ok := ctx.Value(consistencyKey{}).(Consistency)
	if !ok {
		c = p.cfg.Consistency
	}
	minIndex := c.MinIndex
	if c.Stale {
		ctx = metadata.AppendToOutgoingContext(ctx, HeaderConsistency, "stale")
		// A linearizable read needs no index: it includes every acknowledged write.
		minIndex = max(minIndex, p.seen.Load())
	}
	if minIndex > 0 {
		ctx = metadata.AppendToOutgoingContext(ctx, HeaderMinIndex, strconv.FormatUint(minIndex, 10))
	}
	return ctx
}

// observe records the highest index found in a response.
func (p *peers) observe(header metadata.MD) {
	for _, v := range header.Get(HeaderIndex) {
		index, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			continue
		}
		for {
			seen := p.seen.Load()
			if index <= seen || p.seen.CompareAndSwap(seen, index) {
				break
			}
		}
	}
}
