package server

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/auth"
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

// GRPCOptions returns the options of a gRPC server of the public API: its limits and its
// interceptors.
func (s *Server) GRPCOptions() []grpc.ServerOption {
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
		grpc.UnaryInterceptor(s.serveUnary),
		grpc.StreamInterceptor(s.serveStream),
	}
}

// serveUnary is the path of every unary call, whether it arrives over gRPC or from an HTTP API of
// this process: metrics, logging, a status for its error or panic; a deadline; authentication and
// rate limits; the Forwarder, which sends the call to the peer that serves it; and on that peer,
// authorization. Only heartbeats over HTTP have a shorter one (see Heartbeats).
func (s *Server) serveUnary(
	ctx context.Context, req any, call *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
) (resp any, err error) {
	method, start := call.FullMethod, time.Now()
	defer func() { err = s.ended(ctx, method, start, recover(), err) }()
	in := ctx
	if most := s.callTimeout(ctx, method); most > 0 {
		var cancel context.CancelFunc
		in, cancel = context.WithTimeout(ctx, most)
		defer cancel()
	}
	if in, err = s.cfg.Gate.Enter(in, method); err != nil {
		return nil, err
	}
	authorized := func(ctx context.Context, req any) (any, error) {
		m, _ := req.(proto.Message)
		if err := s.cfg.Gate.Authorize(ctx, method, m); err != nil {
			return nil, err
		}
		return handle(ctx, req)
	}
	if s.cfg.Forwarder == nil {
		return authorized(in, req)
	}
	return s.cfg.Forwarder.InterceptUnary(in, req, call, authorized)
}

// serveStream is serveUnary for streams, which have no default deadline.
func (s *Server) serveStream(
	srv any, stream grpc.ServerStream, call *grpc.StreamServerInfo, handle grpc.StreamHandler,
) (err error) {
	method, start := call.FullMethod, time.Now()
	open := s.metrics.open.WithLabelValues(method)
	open.Inc()
	defer open.Dec()
	defer func() { err = s.ended(stream.Context(), method, start, recover(), err) }()
	caller, err := s.cfg.Gate.Enter(stream.Context(), method)
	if err != nil {
		return err
	}
	closed, err := s.cfg.Gate.OpenStream(caller)
	if err != nil {
		return err
	}
	defer closed()
	ctx, release := auth.Until(caller)
	defer release()
	defer func() {
		if e, ok := errors.AsType[*auth.Error](context.Cause(ctx)); ok {
			err = e // it ended the stream, whichever error that caused
		}
	}()
	authorized := func(srv any, stream grpc.ServerStream) error {
		stream, err := s.cfg.Gate.AuthorizeStream(stream, method)
		if err != nil {
			return err
		}
		return handle(srv, stream)
	}
	entered := &streamOf{ServerStream: stream, ctx: ctx, ends: ctx != caller}
	if s.cfg.Forwarder == nil {
		return authorized(srv, entered)
	}
	return s.cfg.Forwarder.InterceptStream(srv, entered, call, authorized)
}

// streamOf is a stream with the context of its caller.
type streamOf struct {
	grpc.ServerStream
	ctx  context.Context //nolint:containedctx // a stream has a context
	ends bool            // the context can end before that of ServerStream
}

// Context implements grpc.ServerStream.
func (s *streamOf) Context() context.Context { return s.ctx }

// RecvMsg implements grpc.ServerStream. It also returns when the caller's credentials end, although
// the client sends nothing. The goroutine then ends with the stream, after its handler.
func (s *streamOf) RecvMsg(m any) error {
	if !s.ends {
		return s.ServerStream.RecvMsg(m)
	}
	got := make(chan error, 1)
	go func() { got <- s.ServerStream.RecvMsg(m) }()
	select {
	case err := <-got:
		return err
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

// callTimeout returns the time limit for a call without a deadline, so that no call waits forever
// for a cluster without quorum. It is 0 for a call with a deadline, and for one whose deadline the
// Forwarder sets: a second context with a timer would cost 2 µs. A restore has a longer one,
// because it has to read a whole snapshot.
func (s *Server) callTimeout(ctx context.Context, method string) time.Duration {
	if _, ok := ctx.Deadline(); ok {
		return 0
	}
	if method == holdfastv1.OperatorService_RestoreSnapshot_FullMethodName {
		return max(s.cfg.CallTimeout, operator.RestoreCallTimeout)
	}
	if s.cfg.Forwarder != nil && strings.HasPrefix(method, publicPrefix) {
		return 0
	}
	return s.cfg.CallTimeout
}

// publicPrefix begins the full names of methods of the public API.
const publicPrefix = "/holdfast.v1."

// ended measures and logs a call, and returns the status for its panic or its error. It does not
// log the request, which may contain a secret.
func (s *Server) ended(ctx context.Context, method string, start time.Time, panicked any, err error) error {
	if panicked != nil { // becomes INTERNAL
		err = &recovery.PanicError{Panic: panicked, Stack: debug.Stack()}
	}
	err = s.peer.Status(ctx, method, err)
	took, code := time.Since(start), status.Code(err)
	s.metrics.handled.WithLabelValues(method, code.String()).Inc()
	s.metrics.seconds.WithLabelValues(method).Observe(took.Seconds())
	if s.peer.Log.Enabled(ctx, slog.LevelDebug) {
		attrs := []slog.Attr{
			slog.String("method", method), slog.String("code", code.String()), slog.Duration("took", took),
		}
		if err != nil {
			attrs = append(attrs, slog.String("error", status.Convert(err).Message()))
		}
		s.peer.Log.LogAttrs(ctx, slog.LevelDebug, "call", attrs...)
	}
	return err
}
