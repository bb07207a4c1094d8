package client

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// outcome is what is known about a try.
type outcome int

const (
	answered   outcome = iota // the server answered, perhaps with a refusal
	notApplied                // it was not applied and never will be
	unknown                   // it may have been applied, or may still be
)

// classify needs to know whether the request has left this process: UNAVAILABLE is what gRPC says
// both for a refused connection and for one that broke while the server was at work.
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
		return answered // it is the request that is too much, and will be again
	case codes.DeadlineExceeded, codes.Canceled:
		// Also what a server says whose context ended because it is stopping.
	default:
		return answered
	}
	if sent {
		return unknown
	}
	return notApplied
}

type tryKey struct{}

// try is what is seen of a request on its way.
type try struct {
	peer *peer
	sent atomic.Bool
}

// watch adds to the context what notes that a request made with it goes out, and when something
// comes back.
func (p *peer) watch(ctx context.Context) (context.Context, *atomic.Bool) {
	t := &try{peer: p}
	return context.WithValue(ctx, tryKey{}, t), &t.sent
}

// tryHandler makes these notes: gRPC has no other way to tell.
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
	case *stats.InHeader, *stats.InPayload, *stats.InTrailer:
		t.peer.heard.now()
	}
}

// TagConn implements stats.Handler.
func (tryHandler) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (tryHandler) HandleConn(context.Context, stats.ConnStats) {}
