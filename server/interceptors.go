package server

import (
	"context"
	"log/slog"
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
)

// GRPCOptions returns the limits for a gRPC server of the public API.
func GRPCOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxRequestSize),
		grpc.MaxHeaderListSize(maxMetadata),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(handshakeTimeout),
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
// order: metrics and logging, the default deadline, error statuses, recovery from panics,
// authentication and rate limits; the Forwarder, which sends the call to the peer that
// serves it; and on that peer, authorization.
func (s *Server) UnaryInterceptors() []grpc.UnaryServerInterceptor {
	all := []grpc.UnaryServerInterceptor{
		s.observeUnary,
		s.boundUnary,
		func(ctx context.Context, req any, call *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			resp, err := next(ctx, req)
			return resp, s.peer.Status(ctx, call.FullMethod, err)
		},
		recovery.UnaryServerInterceptor(), // a panic becomes an error that Status maps to INTERNAL
		s.cfg.Gate.EdgeUnary,
	}
	if s.cfg.Forwarder != nil {
		all = append(all, s.cfg.Forwarder.UnaryInterceptor())
	}
	return append(all, s.cfg.Gate.Unary)
}

// StreamInterceptors is UnaryInterceptors for streams, which have no default deadline.
func (s *Server) StreamInterceptors() []grpc.StreamServerInterceptor {
	all := []grpc.StreamServerInterceptor{
		s.observeStream,
		func(srv any, stream grpc.ServerStream, call *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			return s.peer.Status(stream.Context(), call.FullMethod, next(srv, stream))
		},
		recovery.StreamServerInterceptor(),
		s.cfg.Gate.EdgeStream,
	}
	if s.cfg.Forwarder != nil {
		all = append(all, s.cfg.Forwarder.StreamInterceptor())
	}
	return append(all, s.cfg.Gate.Stream)
}

// boundUnary sets a deadline on calls without one, so that no call waits forever for a
// cluster without quorum. A restore has a longer one, because it has to read a whole
// snapshot.
func (s *Server) boundUnary(
	ctx context.Context, req any, call *grpc.UnaryServerInfo, next grpc.UnaryHandler,
) (any, error) {
	if _, ok := ctx.Deadline(); ok {
		return next(ctx, req)
	}
	most := s.cfg.CallTimeout
	if call.FullMethod == holdfastv1.OperatorService_RestoreSnapshot_FullMethodName {
		most = max(most, operator.RestoreTimeout)
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	return next(ctx, req)
}

func (s *Server) observeUnary(
	ctx context.Context, req any, call *grpc.UnaryServerInfo, next grpc.UnaryHandler,
) (any, error) {
	start := time.Now()
	resp, err := next(ctx, req)
	s.observed(ctx, call.FullMethod, time.Since(start), err)
	return resp, err
}

func (s *Server) observeStream(
	srv any, stream grpc.ServerStream, call *grpc.StreamServerInfo, next grpc.StreamHandler,
) error {
	start := time.Now()
	open := s.metrics.open.WithLabelValues(call.FullMethod)
	open.Inc()
	defer open.Dec()
	err := next(srv, stream)
	s.observed(stream.Context(), call.FullMethod, time.Since(start), err)
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
