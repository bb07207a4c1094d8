package client

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// outcome is the known result of a try.
type outcome int

const (
	answered   outcome = iota // by the server, possibly with a refusal
	notApplied                // and never will be
	unknown                   // may have been applied, or may still be
)

// classify returns the outcome of a try. It must know whether the request left this
// process, because gRPC returns UNAVAILABLE both for a refused connection and for one that
// broke during the call.
func classify(err error, sent bool) outcome {
	switch status.Code(err) {
	case codes.Unavailable:
		switch Reason(err) {
		case ReasonNotApplied, ReasonNoLeader:
			return notApplied
		case ReasonOutcomeUnknown:
			return unknown
		}
	case codes.ResourceExhausted:
		if tooMany(err) {
			return notApplied
		}
		return answered // this request exceeds a limit, and always will
	case codes.DeadlineExceeded, codes.Canceled:
		// Also returned by a server that is stopping.
	default:
		return answered
	}
	if sent {
		return unknown
	}
	return notApplied
}

type tryKey struct{}

// try observes one request in transit.
type try struct {
	peer     *peer
	sent     atomic.Bool // whether it has left on a connection
	accepted atomic.Bool // whether the headers of its response have arrived
}

// watch returns a context that records when the request is sent and when a response
// arrives.
func (p *peer) watch(ctx context.Context) (context.Context, *try) {
	t := &try{peer: p}
	return context.WithValue(ctx, tryKey{}, t), t
}

// tryHandler records both: gRPC offers no other way.
type tryHandler struct{}

// TagRPC implements stats.Handler.
func (tryHandler) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler.
func (tryHandler) HandleRPC(ctx context.Context, s stats.RPCStats) {
	t, ok := ctx.Value(tryKey{}).(*try)
	if !ok {
		return
	}
	switch s.(type) {
	case *stats.OutHeader:
		t.sent.Store(true)
	case *stats.InHeader:
		t.accepted.Store(true)
		t.peer.heard.now()
	case *stats.InPayload, *stats.InTrailer:
		t.peer.heard.now()
	}
}

// TagConn implements stats.Handler.
func (tryHandler) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (tryHandler) HandleConn(context.Context, stats.ConnStats) {}
