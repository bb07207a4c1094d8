package clitest

import (
	stdcmp "cmp"
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func fixturePools() []*holdfastv1.Pool {
	return []*holdfastv1.Pool{
		{PoolId: "cpu", Declared: true, Provider: "generic", Machines: 12, MachinesReady: 11, CreatedAt: Ago(time.Hour)},
		{PoolId: "pool-1", Status: holdfastv1.Pool_HEALTHY, Endpoint: "http://192.168.1.100:9200", Region: "EU",
			Version: "0.1.0", WorkersTotal: 2, WorkersBusy: 1,
			AvailableVramGb: 8, LastHeartbeat: Ago(20 * time.Second), Gpus: []*holdfastv1.Gpu{{Id: 0, Model: "RTX 4090",
				TotalVramGb: new(float64(24)), AvailableVramGb: new(float64(8)),
				TemperatureCelsius: new(float64(65)), Workers: []string{"worker-abc"}}}},
		{PoolId: "pool-2", Status: holdfastv1.Pool_UNAVAILABLE, StatusReason: "three heartbeats missed",
			LastHeartbeat: Ago(time.Hour)},
	}
}

func fixtureServices() []*holdfastv1.Service {
	return []*holdfastv1.Service{
		{Target: &holdfastv1.ServiceTarget{Id: "550e8400-e29b-41d4-a716-446655440000", ServiceName: "my-tool",
			Host: "192.168.1.100", Port: 9090, ServiceType: "tool-invoker"},
			Active: true, LastSeen: Ago(5 * time.Second), RegisteredAt: Ago(time.Hour), Principal: "token:tools",
			States: []*holdfastv1.ServiceState{{Timestamp: Ago(time.Hour), Healthy: true, Reason: "healthy"}}},
		{Target: &holdfastv1.ServiceTarget{Id: "550e8400-e29b-41d4-a716-446655440001", ServiceName: "files", Host: "h",
			Port: 1, ServiceType: "resource-provider"},
			LastSeen: Ago(time.Hour), States: []*holdfastv1.ServiceState{{Timestamp: Ago(time.Hour),
				Reason: "missing in action"}}},
	}
}

func (f *Cluster) ListPools(
	_ context.Context, r *holdfastv1.ListPoolsRequest,
) (*holdfastv1.ListPoolsResponse, error) {
	items, next := page(f.Pools, (*holdfastv1.Pool).GetPoolId, r.GetPageSize(), r.GetPageToken())
	return &holdfastv1.ListPoolsResponse{Pools: items, NextPageToken: next}, nil
}

func (f *Cluster) GetPool(_ context.Context, r *holdfastv1.GetPoolRequest) (*holdfastv1.Pool, error) {
	for _, p := range f.Pools {
		if p.GetPoolId() == r.GetPoolId() {
			return p, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "pool %q not found", r.GetPoolId())
}

func (f *Cluster) CreatePool(_ context.Context, r *holdfastv1.CreatePoolRequest) (*holdfastv1.Pool, error) {
	return r.GetPool(), nil
}

func (f *Cluster) ListProviders(
	context.Context, *holdfastv1.ListProvidersRequest,
) (*holdfastv1.ListProvidersResponse, error) {
	return &holdfastv1.ListProvidersResponse{Providers: []*holdfastv1.PlatformProvider{{ProviderId: "acme",
		PoolId: "gpu", TotalGpus: 8, PricePerHour: 1.5, Currency: "EUR"}}}, nil
}

func (f *Cluster) DeleteProvider(
	context.Context, *holdfastv1.DeleteProviderRequest,
) (*holdfastv1.DeleteProviderResponse, error) {
	return &holdfastv1.DeleteProviderResponse{}, nil
}

func (f *Cluster) DeletePool(
	context.Context, *holdfastv1.DeletePoolRequest,
) (*holdfastv1.DeletePoolResponse, error) {
	return &holdfastv1.DeletePoolResponse{}, nil
}

// WatchServices sends the current services, and then the first one as inactive.
func (f *Cluster) WatchServices(
	r *holdfastv1.WatchServicesRequest, s grpc.ServerStreamingServer[holdfastv1.ServiceEvent],
) error {
	if err := f.take(s.Context(), r); err != nil {
		return err
	}
	for i, svc := range f.Services {
		if err := s.Send(&holdfastv1.ServiceEvent{Cursor: uint64(i / (len(f.Services) - 1)), Service: svc}); err != nil {
			return err
		}
	}
	lost := proto.CloneOf(f.Services[0])
	lost.Active = false
	if err := s.Send(&holdfastv1.ServiceEvent{Cursor: 2, Service: lost}); err != nil {
		return err
	}
	return f.rest(s.Context())
}

func (f *Cluster) ListServices(
	_ context.Context, r *holdfastv1.ListServicesRequest,
) (*holdfastv1.ListServicesResponse, error) {
	items, next := page(f.Services, func(s *holdfastv1.Service) string { return s.GetTarget().GetId() },
		r.GetPageSize(), r.GetPageToken())
	return &holdfastv1.ListServicesResponse{Services: items, NextPageToken: next}, nil
}

func (f *Cluster) GetService(_ context.Context, r *holdfastv1.GetServiceRequest) (*holdfastv1.Service, error) {
	for _, s := range f.Services {
		if s.GetTarget().GetId() == r.GetId() {
			return s, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "service %q not found", r.GetId())
}

func (f *Cluster) DeregisterService(
	context.Context, *holdfastv1.DeregisterServiceRequest,
) (*holdfastv1.Service, error) {
	return &holdfastv1.Service{}, nil
}

func (f *Cluster) CreateAgentMachine(
	_ context.Context, r *holdfastv1.CreateAgentMachineRequest,
) (*holdfastv1.CreateAgentMachineResponse, error) {
	return &holdfastv1.CreateAgentMachineResponse{Machine: &holdfastv1.Machine{MachineId: stdcmp.Or(r.GetMachineId(),
		"0a1b2c3d")}, Token: "the-token", TokenId: "tok-9"}, nil
}

func (f *Cluster) GetNode(_ context.Context, r *holdfastv1.GetNodeRequest) (*holdfastv1.Machine, error) {
	return FixtureNode(r.GetId()), nil
}

func (f *Cluster) UpdateNode(_ context.Context, r *holdfastv1.UpdateNodeRequest) (*holdfastv1.Machine, error) {
	return FixtureNode(r.GetId()), nil
}

func (f *Cluster) TransitionNode(
	_ context.Context, r *holdfastv1.TransitionNodeRequest,
) (*holdfastv1.Machine, error) {
	m := FixtureNode(r.GetId())
	m.Status.NodeState = r.GetState()
	return m, nil
}

func (f *Cluster) ListStalledNodes(
	_ context.Context, r *holdfastv1.ListStalledNodesRequest,
) (*holdfastv1.ListStalledNodesResponse, error) {
	nodes := f.Stalled
	if nodes == nil {
		nodes = []*holdfastv1.Machine{FixtureNode("m-1")}
	}
	items, next := page(nodes, (*holdfastv1.Machine).GetMachineId, r.GetPageSize(), r.GetPageToken())
	return &holdfastv1.ListStalledNodesResponse{Machines: items, NextPageToken: next}, nil
}

// FixtureNode returns a node that has failed an install.
func FixtureNode(id string) *holdfastv1.Machine {
	return &holdfastv1.Machine{MachineId: id, Spec: &holdfastv1.MachineSpec{MacAddresses: []string{"aa:bb:cc:dd:ee:ff"}},
		Status: &holdfastv1.MachineStatus{NodeState: holdfastv1.Node_INSTALLING},
		Node: &holdfastv1.NodeRecord{Hostname: "n1", WorkflowId: "plan/repave-join", InstallAttempts: 2,
			LastInstallError: "Disk not found", Vendor: "Acme",
			StateChangedAt: Ago(2 * time.Hour), LastSeenAt: Ago(time.Minute), Tags: []string{"r7"}}}
}
