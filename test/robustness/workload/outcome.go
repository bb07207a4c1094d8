package workload

import (
	"context"
	"sync/atomic"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// classify returns the known outcome of a failed call. It trusts only the server's own
// statement of the outcome. Without one, a call that left this process may have been
// applied.
func classify(err error, sent bool) (o Outcome, reason, named string) {
	var info *errdetails.ErrorInfo
	for _, d := range status.Convert(err).Details() {
		if i, ok := d.(*errdetails.ErrorInfo); ok {
			info = i
		}
	}
	reason, named = info.GetReason(), info.GetMetadata()["run_id"]
	switch status.Code(err) {
	case codes.OK:
		return OK, "", ""
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.FailedPrecondition, codes.OutOfRange,
		codes.Aborted:
		if info != nil {
			return Refused, reason, named
		}
	case codes.Unavailable:
		if reason == "NOT_APPLIED" || reason == "NO_LEADER" {
			return NotApplied, reason, named
		}
	}
	if !sent {
		return NotApplied, reason, named
	}
	return Unknown, reason, named
}

type sentKey struct{}

// withSent adds a flag to the context that is set when a request made with it is sent.
func withSent(ctx context.Context) (context.Context, *atomic.Bool) {
	sent := new(atomic.Bool)
	return context.WithValue(ctx, sentKey{}, sent), sent
}

// sentHandler sets that flag: gRPC returns UNAVAILABLE both for a refused connection and
// for one that broke.
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
