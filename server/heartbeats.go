package server

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Heartbeats serves heartbeats that arrive over the HTTP APIs of this process. They are
// nearly all of the work of a peer in a large fleet.
//
// auth.Mux has admitted the caller. The caller owns the messages, and they contain no
// field that is unknown to this build.
type Heartbeats struct{ s *Server }

// Heartbeats returns the handler of heartbeats for the HTTP APIs.
func (s *Server) Heartbeats() *Heartbeats { return &Heartbeats{s} }

// KeepMachineAlive renews the lease of a machine. Errors are gRPC statuses.
func (h *Heartbeats) KeepMachineAlive(
	ctx context.Context, r *holdfastv1.KeepMachineAliveRequest,
) (*holdfastv1.KeepMachineAliveResponse, error) {
	return serveLocal(ctx, h.s, holdfastv1.HeartbeatService_KeepMachineAlive_FullMethodName, r,
		h.s.heartbeats.KeepKnownAlive)
}

// HeartbeatPool renews the lease of a pool. Errors are gRPC statuses.
func (h *Heartbeats) HeartbeatPool(
	ctx context.Context, r *holdfastv1.HeartbeatPoolRequest,
) (*holdfastv1.HeartbeatPoolResponse, error) {
	return serveLocal(ctx, h.s, holdfastv1.HeartbeatService_HeartbeatPool_FullMethodName, r, h.s.heartbeats.HeartbeatPool)
}

// PingService renews the lease of a service. Errors are gRPC statuses.
func (h *Heartbeats) PingService(
	ctx context.Context, r *holdfastv1.PingServiceRequest,
) (*holdfastv1.PingServiceResponse, error) {
	return serveLocal(ctx, h.s, holdfastv1.HeartbeatService_PingService_FullMethodName, r, h.s.heartbeats.PingService)
}

// serveLocal is serveUnary for heartbeats, without three steps that change nothing for them: Leases
// sets a deadline, auth.Mux has authenticated the caller, and every peer serves heartbeats. The
// first two of these steps alone would add 15 % to the processor time of a keepalive
// (BenchmarkKeepalive).
func serveLocal[Q proto.Message, A any](
	ctx context.Context, s *Server, method string, req Q, handle func(context.Context, Q) (A, error),
) (resp A, err error) {
	start := time.Now()
	defer func() { err = s.ended(ctx, method, start, recover(), err) }()
	if err := s.cfg.Gate.Authorize(ctx, method, req); err != nil {
		return resp, err
	}
	return handle(ctx, req)
}
