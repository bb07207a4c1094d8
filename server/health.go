package server

import (
	"context"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
)

// healthPause is the time between two checks of a health watch.
const healthPause = 500 * time.Millisecond

// healthService implements gRPC health: SERVING if the peer is ready (see /readyz).
type healthService struct {
	grpc_health_v1.UnimplementedHealthServer
	*Server
}

// services returns the names of the services; "" is the whole peer.
func services() []string {
	return []string{
		"", holdfastv1.MachineService_ServiceDesc.ServiceName, holdfastv1.PlanService_ServiceDesc.ServiceName,
		holdfastv1.RunService_ServiceDesc.ServiceName, holdfastv1.ClusterService_ServiceDesc.ServiceName,
	}
}

func (s *healthService) status(service string) grpc_health_v1.HealthCheckResponse_ServingStatus {
	switch {
	case !slices.Contains(services(), service):
		return grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN
	case s.ready() != nil:
		return grpc_health_v1.HealthCheckResponse_NOT_SERVING
	}
	return grpc_health_v1.HealthCheckResponse_SERVING
}

// Check returns the current status of a service.
func (s *healthService) Check(
	_ context.Context, r *grpc_health_v1.HealthCheckRequest,
) (*grpc_health_v1.HealthCheckResponse, error) {
	st := s.status(r.GetService())
	if st == grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN {
		return nil, &fsm.Error{
			Code: fsm.NotFound, Reason: "SERVICE_UNKNOWN", Message: "unknown service " + strconv.Quote(r.GetService()),
		}
	}
	return &grpc_health_v1.HealthCheckResponse{Status: st}, nil
}

// List returns the status of every service.
func (s *healthService) List(
	context.Context, *grpc_health_v1.HealthListRequest,
) (*grpc_health_v1.HealthListResponse, error) {
	all := map[string]*grpc_health_v1.HealthCheckResponse{}
	for _, name := range services() {
		all[name] = &grpc_health_v1.HealthCheckResponse{Status: s.status(name)}
	}
	return &grpc_health_v1.HealthListResponse{Statuses: all}, nil
}

// Watch sends the current status, and each change.
func (s *healthService) Watch(
	r *grpc_health_v1.HealthCheckRequest, stream grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse],
) error {
	tick := time.NewTicker(healthPause)
	defer tick.Stop()
	for sent := grpc_health_v1.HealthCheckResponse_UNKNOWN; ; {
		end := edge.Ended(stream.Context(), s.draining) // checked before the status, so NOT_SERVING is sent first
		if now := s.status(r.GetService()); now != sent {
			sent = now
			if err := stream.Send(&grpc_health_v1.HealthCheckResponse{Status: now}); err != nil {
				return err
			}
		}
		if end != nil {
			return end
		}
		select {
		case <-tick.C:
		case <-s.draining:
		case <-stream.Context().Done():
		}
	}
}
