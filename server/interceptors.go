package server

import (
	"context"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/internal/operator"
)

// The limits of the gRPC listener (docs/security.md).
const (
	maxRequestSize       = 4 << 20  // bytes
	maxMetadata          = 64 << 10 // bytes
	maxStreams           = 8192     // per connection; docs/performance.md measures 5,000 watchers on one peer
	minClientPing        = 5 * time.Second
	pingIdleClientsAfter = 30 * time.Second
	pingTimeout          = 10 * time.Second
	handshakeTimeout     = 10 * time.Second
	maxConnectionAge     = 24 * time.Hour // then a client reconnects and presents its certificate again
	lastCallsTimeout     = 5 * time.Minute
	// streamWorkers is how many goroutines serve calls one after the other, so that their
	// stacks need not grow anew in each call. If all are in use, as by watchers, a call gets
	// a goroutine of its own.
	streamWorkers = 256
)

// GRPCOptions returns the limits for a gRPC server of the public API.
func GRPCOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxRequestSize),
		grpc.MaxHeaderListSize(maxMetadata),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.NumStreamWorkers(streamWorkers),
		// Clients ping every 10 s to detect a lost host. Watchers ping without a call in
		// flight too.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minClientPing, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time:                  pingIdleClientsAfter,
			Timeout:               pingTimeout,
			MaxConnectionAge:      maxConnectionAge,
			MaxConnectionAgeGrace: lastCallsTimeout,
		}),
	}
}

// UnaryInterceptors returns all interceptors of a gRPC server of the public API, in this
// order: metrics, logging, error statuses and recovery from panics; the default deadline;
// authentication and rate limits; the Forwarder, which sends the call to the peer that
// serves it; and on that peer, authorization.
func (s *Server) UnaryInterceptors() []grpc.UnaryServerInterceptor {
	all := []grpc.UnaryServerInterceptor{s.guardUnary, s.boundUnary, s.cfg.Gate.EdgeUnary}
	if s.cfg.Forwarder != nil {
		all = append(all, s.cfg.Forwarder.UnaryInterceptor())
	}
	return append(all, s.cfg.Gate.Unary)
}

// StreamInterceptors is UnaryInterceptors for streams, which have no default deadline.
func (s *Server) StreamInterceptors() []grpc.StreamServerInterceptor {
	all := []grpc.StreamServerInterceptor{s.guardStream, s.cfg.Gate.EdgeStream}
	if s.cfg.Forwarder != nil {
		all = append(all, s.cfg.Forwarder.StreamInterceptor())
	}
	return append(all, s.cfg.Gate.Stream)
}

// localInterceptors returns the interceptors of heartbeats that arrive over the HTTP APIs.
// They are those of gRPC, without three steps that change nothing for a heartbeat: Leases
// sets a deadline, auth.Mux has authenticated the caller, and every peer serves heartbeats.
// The first two of these steps alone would add 15 % to the processor time of a keepalive
// (BenchmarkKeepalive).
func (s *Server) localInterceptors() []grpc.UnaryServerInterceptor {
	return []grpc.UnaryServerInterceptor{s.guardUnary, s.cfg.Gate.Unary}
}

// boundUnary sets a deadline on calls without one, so that no call waits forever for a
// cluster without quorum. A restore has a longer one, because it has to read a whole
// snapshot.
func (s *Server) boundUnary(
	ctx context.Context, req any, call *grpc.UnaryServerInfo, next grpc.UnaryHandler,
) (any, error) {
	if _, ok := ctx.Deadline(); ok || s.boundLater(call.FullMethod) {
		return next(ctx, req)
	}
	most := s.cfg.CallTimeout
	if call.FullMethod == holdfastv1.OperatorService_RestoreSnapshot_FullMethodName {
		most = max(most, operator.RestoreCallTimeout)
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	return next(ctx, req)
}

// boundLater reports whether the Forwarder sets the deadline of a call without one. A second
// context with a timer would cost 2 µs.
func (s *Server) boundLater(method string) bool {
	return s.cfg.Forwarder != nil && strings.HasPrefix(method, publicPrefix) &&
		method != holdfastv1.OperatorService_RestoreSnapshot_FullMethodName
}

// publicPrefix begins the full names of methods of the public API.
const publicPrefix = "/holdfast.v1."

// guardUnary measures a call, and converts its panic or error to a status.
func (s *Server) guardUnary(
	ctx context.Context, req any, call *grpc.UnaryServerInfo, next grpc.UnaryHandler,
) (resp any, err error) {
	start := time.Now()
	defer func() { err = s.ended(ctx, call.FullMethod, start, recover(), err) }()
	return next(ctx, req)
}

// guardStream is guardUnary for streams.
func (s *Server) guardStream(
	srv any, stream grpc.ServerStream, call *grpc.StreamServerInfo, next grpc.StreamHandler,
) (err error) {
	start := time.Now()
	open := s.metrics.open.WithLabelValues(call.FullMethod)
	open.Inc()
	defer open.Dec()
	defer func() { err = s.ended(stream.Context(), call.FullMethod, start, recover(), err) }()
	return next(srv, stream)
}

// ended observes the end of a call, and returns the status for its panic or its error.
func (s *Server) ended(ctx context.Context, method string, start time.Time, panicked any, err error) error {
	if panicked != nil { // becomes INTERNAL
		err = &recovery.PanicError{Panic: panicked, Stack: debug.Stack()}
	}
	err = s.peer.Status(ctx, method, err)
	s.observed(ctx, method, time.Since(start), err)
	return err
}

// observed updates the metrics and logs a call. It does not log the request, which may
// contain a secret.
func (s *Server) observed(ctx context.Context, method string, took time.Duration, err error) {
	code := status.Code(err)
	s.metrics.handled.WithLabelValues(method, code.String()).Inc()
	s.metrics.seconds.WithLabelValues(method).Observe(took.Seconds())
	if !s.peer.Log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	attrs := []slog.Attr{
		slog.String("method", method), slog.String("code", code.String()), slog.Duration("took", took),
	}
	if err != nil {
		attrs = append(attrs, slog.String("error", status.Convert(err).Message()))
	}
	s.peer.Log.LogAttrs(ctx, slog.LevelDebug, "call", attrs...)
}
