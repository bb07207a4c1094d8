package client

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

const (
	// streamQuiet is how long a peer may say nothing before one that follows a stream of it has a
	// look.
	streamQuiet = 3 * time.Second
	// lifeTimeout is how long the peer has to give a heartbeat then.
	lifeTimeout = 2 * time.Second
)

// errLifeless is the cause of a context that a lifeline has ended.
var errLifeless = errors.New("the peer gives no heartbeat")

// lastHeard is when something of a peer came in last, on any call or stream.
type lastHeard struct{ at atomic.Pointer[time.Time] }

func (h *lastHeard) now() {
	t := time.Now()
	h.at.Store(&t)
}

// since is the later one of a time and of when the peer was last heard.
func (h *lastHeard) since(t time.Time) time.Time {
	if at := h.at.Load(); at != nil && at.After(t) {
		return *at
	}
	return t
}

// lifeline ends the context, with errLifeless, when the peer says nothing for a while and does not
// answer the simplest question after that. The pings of gRPC find out the same, but later than an
// operator is to wait (client.go). Release ends it; it must be called. Without another peer there
// is nothing to gain, and the context ends with its parent alone.
func (p *peers) lifeline(ctx context.Context, peer *peer, quiet time.Duration) (_ context.Context, release context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if len(p.all) == 1 {
		return ctx, func() { cancel(nil) }
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if peer.watchLife(ctx, quiet) {
			p.order.Late(peer.number)
			cancel(errLifeless)
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-done
	}
}

// watchLife tells that the peer is lifeless, or, when the context ends, that it is not.
func (p *peer) watchLife(ctx context.Context, quiet time.Duration) bool {
	began := time.Now()
	t := time.NewTimer(quiet)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-t.C:
		}
		if silence := time.Since(p.heard.since(began)); silence < quiet {
			t.Reset(quiet - silence)
			continue
		}
		asked := time.Now()
		if !p.answers(ctx) && ctx.Err() == nil && p.heard.since(asked).Equal(asked) {
			return true
		}
		began = time.Now()
		t.Reset(quiet)
	}
}

// answers asks the peer for its health. Any answer will do, also that it does not know the
// question; a connection that fails is not waited for: what goes over it fails too.
func (p *peer) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, lifeTimeout)
	defer cancel()
	ctx, _ = p.watch(ctx)
	_, err := healthv1.NewHealthClient(p.conn).Check(ctx, &healthv1.HealthCheckRequest{})
	return status.Code(err) != codes.DeadlineExceeded
}

// lifeless returns the error of what a lifeline has broken off, nil if none has.
func lifeless(ctx context.Context) error {
	if !errors.Is(context.Cause(ctx), errLifeless) {
		return nil
	}
	return status.Error(codes.Unavailable, fmt.Sprintf("%v for %s", errLifeless, lifeTimeout))
}
