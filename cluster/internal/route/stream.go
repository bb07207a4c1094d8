package route

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/cluster/call"
	"github.com/holdfast-metal/holdfast/cluster/outcome"
)

// InterceptStream is the interceptor that resolves the consistency of read-only streams when they
// begin. Streams are served by the peer that accepted them; none is forwarded. A stream that is not
// stale ends with UNAVAILABLE if this peer loses contact with the cluster.
func (rt *Router) InterceptStream(
	srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler,
) error {
	m := rt.methods.get(info.FullMethod)
	if m == nil {
		if err := rt.guard.CheckPeer(ss.Context(), info.FullMethod); err != nil {
			return err
		}
		return next(srv, ss)
	}
	if m.local || !m.read {
		return next(srv, ss)
	}
	index, stale, err := rt.beginStream(ss.Context())
	setHeader := ss.SetHeader
	if err == nil {
		setHeader = ss.SendHeader // so that the client knows before the first message
	}
	if herr := setHeader(rt.header()); herr != nil {
		rt.cfg.Logger.Debug("cannot set response headers", "error", herr)
	}
	if err != nil {
		return err
	}
	ctx := call.WithConsistency(ss.Context(), call.Consistency{Stale: true, MinIndex: index})
	if !stale {
		var stop func()
		ctx, stop = rt.whileConnected(ctx)
		defer stop()
	}
	return rt.lostContact(ctx, next(srv, readStream{ServerStream: ss, ctx: ctx}))
}

// beginStream blocks until the local state is as new as the stream requires, and returns
// its index.
func (rt *Router) beginStream(ctx context.Context) (index uint64, stale bool, err error) {
	want, err := consistencyOf(ctx)
	if err != nil {
		return 0, false, err
	}
	ctx, cancel := inTime(ctx)
	defer cancel()
	if !want.Stale {
		index, err := rt.reader.Index(ctx)
		if err != nil {
			return 0, false, err
		}
		want.MinIndex = max(want.MinIndex, index)
	}
	if err := rt.reader.WaitApplied(ctx, want.MinIndex); err != nil {
		return 0, false, rt.reader.Refusal(err)
	}
	return want.MinIndex, want.Stale, nil
}

type readStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (s readStream) Context() context.Context { return s.ctx }

// leaderlessLimit is how long a stream that is not stale continues without a known leader,
// times the multiplier. Elections take less.
const leaderlessLimit = 5 * time.Second

var errLostContact = errors.New("this peer has lost contact with the cluster")

// whileConnected returns a context that is canceled when this peer has known no leader for
// leaderlessLimit. Otherwise a stream on an isolated peer would stay silent forever,
// although its client could use another peer.
func (rt *Router) whileConnected(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() { // ends with ctx
		for {
			changed := rt.cfg.Changed.Wait()
			var expired <-chan time.Time
			if since := rt.cfg.Leaderless(); since != nil {
				expired = time.After(time.Until(since.Add(rt.cfg.Scale(leaderlessLimit))))
			}
			select {
			case <-changed:
			case <-expired:
				cancel(errLostContact)
				return
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// lostContact returns the error of a stream that whileConnected has ended. Other errors are
// returned unchanged.
func (rt *Router) lostContact(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errLostContact) {
		return rt.reader.Refusal(fmt.Errorf("%w: %w: %s", outcome.ErrNoLeader, errLostContact, rt.cfg.Why("")))
	}
	return err
}
