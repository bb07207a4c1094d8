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

type sentKey struct{}

// withSent adds a flag to the context that is set when a request made with it goes out.
func withSent(ctx context.Context) (context.Context, *atomic.Bool) {
	sent := new(atomic.Bool)
	return context.WithValue(ctx, sentKey{}, sent), sent
}

// sentHandler sets that flag: gRPC has no other way to tell.
type sentHandler struct{}

// TagRPC implements stats.Handler.
func (sentHandler) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler.
func (sentHandler) HandleRPC(ctx context.Context, s stats.RPCStats) {
	if _, ok := s.(*stats.OutHeader); !ok {
		return
	}
	if sent, ok := ctx.Value(sentKey{}).(*atomic.Bool); ok {
		sent.Store(true)
	}
}

// TagConn implements stats.Handler.
func (sentHandler) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (sentHandler) HandleConn(context.Context, stats.ConnStats) {}
