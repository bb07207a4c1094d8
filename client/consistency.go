package client

import (
	"context"
	"strconv"

	"google.golang.org/grpc/metadata"
)

// The metadata keys of reads and of answers.
const (
	HeaderConsistency = "holdfast-consistency"     // request: "stale" asks for the peer's own state
	HeaderMinIndex    = "holdfast-min-index"       // request: the state must be at least this Raft index
	HeaderIndex       = "holdfast-index"           // answer: the Raft index it was made at
	HeaderLeader      = "holdfast-leader"          // answer: the leader's peer id
	HeaderLastContact = "holdfast-last-contact-ms" // answer: how long ago the peer heard the leader
)

// Consistency says how fresh a read must be. The zero value is linearizable: the answer shows every
// write that was acknowledged, to anybody, before the call was made.
type Consistency struct {
	// Stale takes the state of the peer that is asked, without a round trip. The client asks for at
	// least the index it has seen, so it always reads its own writes.
	Stale bool
	// MinIndex is the Raft index that the state must have reached. Zero: any.
	MinIndex uint64
}

type consistencyKey struct{}

// WithConsistency sets the consistency of the reads made with the context.
func WithConsistency(ctx context.Context, c Consistency) context.Context {
	return context.WithValue(ctx, consistencyKey{}, c)
}

// outgoing adds the consistency of a read to its metadata.
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
		// A linearizable read needs no index: it shows what was acknowledged anyway.
		minIndex = max(minIndex, p.seen.Load())
	}
	if minIndex > 0 {
		ctx = metadata.AppendToOutgoingContext(ctx, HeaderMinIndex, strconv.FormatUint(minIndex, 10))
	}
	return ctx
}

// observe remembers the highest index that an answer was made at.
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
