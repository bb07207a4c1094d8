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
	// streamQuiet is how long a stream may be silent before the watchdog probes its peer.
	streamQuiet = 3 * time.Second
	// probeTimeout bounds that probe.
	probeTimeout = 2 * time.Second
)

// errUnresponsive is the cause of a context that the watchdog has canceled.
var errUnresponsive = errors.New("the peer does not respond")

// lastHeard is the time at which any call or stream last received data from a peer.
type lastHeard struct{ at atomic.Pointer[time.Time] }

func (h *lastHeard) now() {
	t := time.Now()
	h.at.Store(&t)
}

// since returns the later of t and the time at which the peer was last heard.
func (h *lastHeard) since(t time.Time) time.Time {
	if at := h.at.Load(); at != nil && at.After(t) {
		return *at
	}
	return t
}

// watchdog returns a context that it cancels with errUnresponsive if the peer is silent for
// the time quiet and then does not answer a health check. gRPC's pings detect the same
// failure, but later (client.go). The caller must call release. With a single peer there is
// no other to turn to, so only the parent ends the context.
func (p *peers) watchdog(
	ctx context.Context, peer *peer, quiet time.Duration,
) (_ context.Context, release context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if len(p.all) == 1 {
		return ctx, func() { cancel(nil) }
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if peer.unresponsive(ctx, quiet) {
			p.order.Late(peer.number)
			cancel(errUnresponsive)
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-done
	}
}

// unresponsive blocks until the peer stops responding and returns true, or false if the
// context ends.
func (p *peer) unresponsive(ctx context.Context, quiet time.Duration) bool {
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

// answers probes the peer's health. Any response counts, including "unimplemented". A
// failed connection counts too, because the calls over it fail by themselves.
func (p *peer) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	ctx, _ = p.watch(ctx)
	_, err := healthv1.NewHealthClient(p.conn).Check(ctx, &healthv1.HealthCheckRequest{})
	return status.Code(err) != codes.DeadlineExceeded
}

// silence returns the reason why a peer has not answered a call, "" if it is ready or the
// connection fails, whose calls report it.
func (p *peer) silence(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	ctx, _ = p.watch(ctx)
	r, err := healthv1.NewHealthClient(p.conn).Check(ctx, &healthv1.HealthCheckRequest{})
	switch {
	case status.Code(err) == codes.DeadlineExceeded:
		return "it does not answer"
	case err != nil, r.GetStatus() != healthv1.HealthCheckResponse_NOT_SERVING:
		return ""
	}
	return waitsForLeader
}

// watchdogError returns the error of a call that the watchdog has canceled, or nil.
func watchdogError(ctx context.Context) error {
	if !errors.Is(context.Cause(ctx), errUnresponsive) {
		return nil
	}
	return status.Error(codes.Unavailable, fmt.Sprintf("%v for %s", errUnresponsive, probeTimeout))
}
