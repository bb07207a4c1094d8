package server

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Heartbeats serves heartbeats that arrive over the HTTP APIs of this process. They are
// nearly all of the work of a peer in a large fleet.
//
// auth.Mux has admitted the caller. The caller owns the messages, and they contain no
// field that is unknown to this build.
type Heartbeats struct{ machine, pool, service grpc.UnaryHandler }

// Heartbeats returns the handler of heartbeats for the HTTP APIs.
func (s *Server) Heartbeats() *Heartbeats {
	return &Heartbeats{
		machine: local(s, holdfastv1.HeartbeatService_KeepMachineAlive_FullMethodName, s.heartbeats.KeepKnownAlive),
		pool:    local(s, holdfastv1.HeartbeatService_HeartbeatPool_FullMethodName, s.heartbeats.HeartbeatPool),
		service: local(s, holdfastv1.HeartbeatService_PingService_FullMethodName, s.heartbeats.PingService),
	}
}

// KeepMachineAlive renews the lease of a machine. Errors are gRPC statuses.
func (h *Heartbeats) KeepMachineAlive(
	ctx context.Context, r *holdfastv1.KeepMachineAliveRequest,
) (*holdfastv1.KeepMachineAliveResponse, error) {
	return answer[*holdfastv1.KeepMachineAliveResponse](h.machine(ctx, r))
}

// HeartbeatPool renews the lease of a pool. Errors are gRPC statuses.
func (h *Heartbeats) HeartbeatPool(
	ctx context.Context, r *holdfastv1.HeartbeatPoolRequest,
) (*holdfastv1.HeartbeatPoolResponse, error) {
	return answer[*holdfastv1.HeartbeatPoolResponse](h.pool(ctx, r))
}

// PingService renews the lease of a service. Errors are gRPC statuses.
func (h *Heartbeats) PingService(
	ctx context.Context, r *holdfastv1.PingServiceRequest,
) (*holdfastv1.PingServiceResponse, error) {
	return answer[*holdfastv1.PingServiceResponse](h.service(ctx, r))
}

// local returns a method with localInterceptors. They are linked once here, and not at each
// call.
func local[Q proto.Message, A any](
	s *Server, method string, handle func(context.Context, Q) (A, error),
) grpc.UnaryHandler {
	call := &grpc.UnaryServerInfo{FullMethod: method}
	next := func(ctx context.Context, req any) (any, error) { return handle(ctx, req.(Q)) }
	for _, i := range slices.Backward(s.localInterceptors()) {
		inner := next
		next = func(ctx context.Context, req any) (any, error) { return i(ctx, req, call, inner) }
	}
	return next
}

// answer returns the typed response of a handler.
func answer[A any](resp any, err error) (A, error) {
	a, _ := resp.(A)
	return a, err
}
