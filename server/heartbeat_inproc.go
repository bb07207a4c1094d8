package server

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/internal/registry"
)

// Heartbeats serves heartbeats that arrive over the HTTP APIs of this process. They are
// nearly all of the work of a peer in a large fleet. So they skip the parts of a gRPC
// call that they do not need and that cost more than the call itself: copied messages,
// headers, consistency, and a second deadline. The access rules, the error texts and the
// metrics are those of a gRPC call.
//
// auth.Mux has admitted the caller. The caller owns the messages, and they contain no
// field that is unknown to this build.
type Heartbeats struct {
	server  *Server
	service *registry.Heartbeats
}

// Heartbeats returns the handler of heartbeats for the HTTP APIs.
func (s *Server) Heartbeats() *Heartbeats { return &Heartbeats{server: s, service: s.heartbeats} }

// KeepMachineAlive renews the lease of a machine. Errors are gRPC statuses.
func (h *Heartbeats) KeepMachineAlive(
	ctx context.Context, r *holdfastv1.KeepMachineAliveRequest,
) (*holdfastv1.KeepMachineAliveResponse, error) {
	const method = holdfastv1.HeartbeatService_KeepMachineAlive_FullMethodName
	return serveLocal(ctx, h.server, method, r, h.service.KeepKnownAlive)
}

// HeartbeatPool renews the lease of a pool. Errors are gRPC statuses.
func (h *Heartbeats) HeartbeatPool(
	ctx context.Context, r *holdfastv1.HeartbeatPoolRequest,
) (*holdfastv1.HeartbeatPoolResponse, error) {
	const method = holdfastv1.HeartbeatService_HeartbeatPool_FullMethodName
	return serveLocal(ctx, h.server, method, r, h.service.HeartbeatPool)
}

// PingService renews the lease of a service. Errors are gRPC statuses.
func (h *Heartbeats) PingService(
	ctx context.Context, r *holdfastv1.PingServiceRequest,
) (*holdfastv1.PingServiceResponse, error) {
	const method = holdfastv1.HeartbeatService_PingService_FullMethodName
	return serveLocal(ctx, h.server, method, r, h.service.PingService)
}

// serveLocal does the work of UnaryInterceptors for an in-process call that any peer can
// serve.
func serveLocal[Q proto.Message, A any](
	ctx context.Context, s *Server, method string, req Q, handle func(context.Context, Q) (A, error),
) (resp A, err error) {
	start := time.Now()
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
		}
		if err != nil {
			err = s.peer.Status(ctx, method, err)
		}
		s.observed(ctx, method, time.Since(start), err)
	}()
	if err := s.cfg.Gate.Authorize(ctx, method, req); err != nil {
		return resp, err
	}
	return handle(ctx, req)
}

// panicked returns the error that the recovery interceptor makes of a panic.
func panicked(p any) error { return &recovery.PanicError{Panic: p, Stack: debug.Stack()} }
