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
)

// The limits of the gRPC listener (docs/security.md).
const (
	maxRequestSize       = 4 << 20  // bytes
	maxMetadata          = 64 << 10 // bytes
	maxStreams           = 8192     // per connection; docs/performance.md has 5,000 watchers on one peer
	minClientPing        = 5 * time.Second
	pingIdleClientsAfter = 30 * time.Second
	pingTimeout          = 10 * time.Second
	handshakeTimeout     = 10 * time.Second
	maxConnectionAge     = 24 * time.Hour // then a client connects again and shows its certificate anew
	lastCallsTimeout     = 5 * time.Minute
)

// GRPCOptions returns the limits that a gRPC server of the public API should have.
func GRPCOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxRequestSize),
		grpc.MaxHeaderListSize(maxMetadata),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(handshakeTimeout),
		// Clients ping every 10 s to notice a vanished host, watchers without a call in flight too.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minClientPing, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: pingIdleClientsAfter, Timeout: pingTimeout, MaxConnectionAge: maxConnectionAge, MaxConnectionAgeGrace: lastCallsTimeout,
		}),
	}
}

// UnaryInterceptors returns all interceptors of a gRPC server of the public API, in this order:
// measuring and logging, the bound in time, the wording of errors, recovery from panics, who the
// caller is and how often they call; then the Forwarder, which takes the call to where it is
// served; and there, what the caller may do.
func (s *Server) UnaryInterceptors() []grpc.UnaryServerInterceptor {
	all := []grpc.UnaryServerInterceptor{
		s.observeUnary,
		s.boundUnary,
		func(ctx context.Context, req any, call *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			resp, err := next(ctx, req)
			return resp, s.toStatus(ctx, call.FullMethod, err)
		},
		recovery.UnaryServerInterceptor(), // a panic becomes an error that toStatus does not know
		s.cfg.Gate.EdgeUnary,
	}
	if s.cfg.Forwarder != nil {
		all = append(all, s.cfg.Forwarder.UnaryInterceptor())
	}
	return append(all, s.cfg.Gate.Unary)
}

// StreamInterceptors is UnaryInterceptors for streams, which have no bound in time.
func (s *Server) StreamInterceptors() []grpc.StreamServerInterceptor {
	all := []grpc.StreamServerInterceptor{
		s.observeStream,
		func(srv any, stream grpc.ServerStream, call *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			return s.toStatus(stream.Context(), call.FullMethod, next(srv, stream))
		},
		recovery.StreamServerInterceptor(),
		s.cfg.Gate.EdgeStream,
	}
	if s.cfg.Forwarder != nil {
		all = append(all, s.cfg.Forwarder.StreamInterceptor())
	}
	return append(all, s.cfg.Gate.Stream)
}

// boundUnary returns a deadline to calls that have none: nobody must wait for ever for a cluster
// that has lost its quorum. A restore has to read all there is, in the time that a large fleet
// takes.
func (s *Server) boundUnary(ctx context.Context, req any, call *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if _, ok := ctx.Deadline(); ok {
		return next(ctx, req)
	}
	most := s.cfg.CallTimeout
	if call.FullMethod == holdfastv1.OperatorService_RestoreSnapshot_FullMethodName {
		most = max(most, restoreCallTimeout)
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	return next(ctx, req)
}

func (s *Server) observeUnary(ctx context.Context, req any, call *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	start := time.Now()
	resp, err := next(ctx, req)
	s.observed(ctx, call.FullMethod, time.Since(start), err)
	return resp, err
}

func (s *Server) observeStream(srv any, stream grpc.ServerStream, call *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	start := time.Now()
	open := s.metrics.open.WithLabelValues(call.FullMethod)
	open.Inc()
	defer open.Dec()
	err := next(srv, stream)
	s.observed(stream.Context(), call.FullMethod, time.Since(start), err)
	return err
}

// observed logs no request: it may hold a secret.
func (s *Server) observed(ctx context.Context, method string, took time.Duration, err error) {
	code := status.Code(err)
	s.metrics.handled.WithLabelValues(method, code.String()).Inc()
	s.metrics.seconds.WithLabelValues(method).Observe(took.Seconds())
	if !s.log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	attrs := []slog.Attr{slog.String("method", method), slog.String("code", code.String()), slog.Duration("took", took)}
	if err != nil {
		attrs = append(attrs, slog.String("error", status.Convert(err).Message()))
	}
	s.log.LogAttrs(ctx, slog.LevelDebug, "call", attrs...)
}
