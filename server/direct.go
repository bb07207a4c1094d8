package server

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Heartbeats takes the heartbeats that came over the HTTP APIs of this process. They are nearly all
// that a peer of a large fleet has to do, and served where they arrive: so they take the services'
// way without what only gRPC needs, which costs more than the call itself (messages copied,
// headers, consistency, deadlines on top of that of Leases). The rule of the method, the words of
// errors and the metrics are those of a call over gRPC.
//
// A caller has been admitted by auth.Mux. Messages are the caller's own, and hold nothing that this
// build does not know.
type Heartbeats struct{ service *heartbeatService }

// Heartbeats returns what takes heartbeats for the HTTP APIs.
func (s *Server) Heartbeats() *Heartbeats { return &Heartbeats{&heartbeatService{Server: s}} }

// KeepMachineAlive takes a keepalive. Errors are statuses.
func (h *Heartbeats) KeepMachineAlive(ctx context.Context, r *holdfastv1.KeepMachineAliveRequest) (*holdfastv1.KeepMachineAliveResponse, error) {
	return serveHere(ctx, h.service.Server, holdfastv1.HeartbeatService_KeepMachineAlive_FullMethodName, r, h.service.keepMachineAlive)
}

// HeartbeatPool takes a pool manager's heartbeat. Errors are statuses.
func (h *Heartbeats) HeartbeatPool(ctx context.Context, r *holdfastv1.HeartbeatPoolRequest) (*holdfastv1.HeartbeatPoolResponse, error) {
	return serveHere(ctx, h.service.Server, holdfastv1.HeartbeatService_HeartbeatPool_FullMethodName, r, h.service.HeartbeatPool)
}

// PingService takes a service's ping. Errors are statuses.
func (h *Heartbeats) PingService(ctx context.Context, r *holdfastv1.PingServiceRequest) (*holdfastv1.PingServiceResponse, error) {
	return serveHere(ctx, h.service.Server, holdfastv1.HeartbeatService_PingService_FullMethodName, r, h.service.PingService)
}

// serveHere is UnaryInterceptors for a call of this process that is served on whichever peer takes
// it.
func serveHere[Q proto.Message, A any](ctx context.Context, s *Server, method string, req Q, handle func(context.Context, Q) (A, error)) (resp A, err error) {
	start := time.Now()
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
		}
		if err != nil {
			err = s.toStatus(ctx, method, err)
		}
		s.observed(ctx, method, time.Since(start), err)
	}()
	if err := s.cfg.Gate.Authorize(ctx, method, req); err != nil {
		return resp, err
	}
	return handle(ctx, req)
}

// panicked returns a panic as the error that recovery makes of it.
func panicked(p any) error { return &recovery.PanicError{Panic: p, Stack: debug.Stack()} }
