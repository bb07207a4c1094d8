package cli

import (
	stdcmp "cmp"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func fixturePools() []*holdfastv1.Pool {
	return []*holdfastv1.Pool{
		{PoolId: "cpu", Declared: true, Provider: "generic", Machines: 12, MachinesReady: 11, CreatedAt: ago(time.Hour)},
		{PoolId: "pool-1", Status: holdfastv1.Pool_HEALTHY, Endpoint: "http://192.168.1.100:9200", Region: "EU",
			Version: "0.1.0", WorkersTotal: 2, WorkersBusy: 1,
			AvailableVramGb: 8, LastHeartbeat: ago(20 * time.Second), Gpus: []*holdfastv1.Gpu{{Id: 0, Model: "RTX 4090",
				TotalVramGb: new(float64(24)), AvailableVramGb: new(float64(8)),
				TemperatureCelsius: new(float64(65)), Workers: []string{"worker-abc"}}}},
		{PoolId: "pool-2", Status: holdfastv1.Pool_UNAVAILABLE, StatusReason: "three heartbeats missed",
			LastHeartbeat: ago(time.Hour)},
	}
}

func fixtureServices() []*holdfastv1.Service {
	return []*holdfastv1.Service{
		{Target: &holdfastv1.ServiceTarget{Id: "550e8400-e29b-41d4-a716-446655440000", ServiceName: "my-tool",
			Host: "192.168.1.100", Port: 9090, ServiceType: "tool-invoker"},
			Active: true, LastSeen: ago(5 * time.Second), RegisteredAt: ago(time.Hour), Principal: "token:tools",
			States: []*holdfastv1.ServiceState{{Timestamp: ago(time.Hour), Healthy: true, Reason: "healthy"}}},
		{Target: &holdfastv1.ServiceTarget{Id: "550e8400-e29b-41d4-a716-446655440001", ServiceName: "files", Host: "h",
			Port: 1, ServiceType: "resource-provider"},
			LastSeen: ago(time.Hour), States: []*holdfastv1.ServiceState{{Timestamp: ago(time.Hour),
				Reason: "missing in action"}}},
	}
}

func (f *fakeCluster) ListPools(
	_ context.Context, r *holdfastv1.ListPoolsRequest,
) (*holdfastv1.ListPoolsResponse, error) {
	items, next := page(f.pools, (*holdfastv1.Pool).GetPoolId, r.GetPageSize(), r.GetPageToken())
	return &holdfastv1.ListPoolsResponse{Pools: items, NextPageToken: next}, nil
}

func (f *fakeCluster) GetPool(_ context.Context, r *holdfastv1.GetPoolRequest) (*holdfastv1.Pool, error) {
	for _, p := range f.pools {
		if p.GetPoolId() == r.GetPoolId() {
			return p, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "pool %q not found", r.GetPoolId())
}

func (f *fakeCluster) CreatePool(_ context.Context, r *holdfastv1.CreatePoolRequest) (*holdfastv1.Pool, error) {
	return r.GetPool(), nil
}

func (f *fakeCluster) ListProviders(
	context.Context, *holdfastv1.ListProvidersRequest,
) (*holdfastv1.ListProvidersResponse, error) {
	return &holdfastv1.ListProvidersResponse{Providers: []*holdfastv1.PlatformProvider{{ProviderId: "acme",
		PoolId: "gpu", TotalGpus: 8, PricePerHour: 1.5, Currency: "EUR"}}}, nil
}

func (f *fakeCluster) DeleteProvider(
	context.Context, *holdfastv1.DeleteProviderRequest,
) (*holdfastv1.DeleteProviderResponse, error) {
	return &holdfastv1.DeleteProviderResponse{}, nil
}

func (f *fakeCluster) DeletePool(
	context.Context, *holdfastv1.DeletePoolRequest,
) (*holdfastv1.DeletePoolResponse, error) {
	return &holdfastv1.DeletePoolResponse{}, nil
}

// WatchServices sends the current services, and then the first one as inactive.
func (f *fakeCluster) WatchServices(
	r *holdfastv1.WatchServicesRequest, s grpc.ServerStreamingServer[holdfastv1.ServiceEvent],
) error {
	if err := f.take(s.Context(), r); err != nil {
		return err
	}
	for i, svc := range f.services {
		if err := s.Send(&holdfastv1.ServiceEvent{Cursor: uint64(i / (len(f.services) - 1)), Service: svc}); err != nil {
			return err
		}
	}
	lost := proto.CloneOf(f.services[0])
	lost.Active = false
	if err := s.Send(&holdfastv1.ServiceEvent{Cursor: 2, Service: lost}); err != nil {
		return err
	}
	return f.rest(s.Context())
}

// Lists of agents, pools and services can be watched: each item is printed once, and after each
// change.
func TestFleetIsWatched(t *testing.T) {
	for line, want := range map[string][]string{
		"service list -w":              {"SERVICE", "my-tool", "files", "my-tool"},
		"service list -w --no-headers": {"my-tool", "files", "my-tool"},
		"service list -w -o name":      {"0000", "0001", "0000"},
		"pool list -w":                 {"POOL", "cpu", "pool-1", "pool-2"},
		"node list -w":                 {"NODE", "m-123", "m-124", "m-125"},
	} {
		t.Run(line, func(t *testing.T) {
			f := fixture()
			f.open = true
			startCluster(t, f)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c := command{ctx: ctx}
			done := make(chan int)
			go func() { done <- c.run(t, f, strings.Fields(line)...) }()
			eventually(t, "all lines", func() bool { return strings.Count(c.out.String(), "\n") >= len(want) })
			cancel()
			c.wantCode(t, <-done, app.ExitOK)
			lines := strings.Split(strings.TrimSpace(c.out.String()), "\n")
			for i, w := range want {
				if len(lines) != len(want) || !strings.Contains(lines[i], w) {
					t.Fatalf("got\n%s\nwant lines with %q", c.out.String(), want)
				}
			}
		})
	}
	a, b := fixturePools()[1], fixturePools()[1]
	b.LastHeartbeat, b.UptimeSeconds, b.Gpus[0].TemperatureCelsius = ago(0), 99, proto.Float64(70)
	if !proto.Equal(steadyPool(a), steadyPool(b)) {
		t.Error("heartbeat without a change: got another line of the pool")
	}
	b.AvailableVramGb = 4
	if proto.Equal(steadyPool(a), steadyPool(b)) {
		t.Error("less free VRAM: got no line of the pool")
	}
}

func (f *fakeCluster) ListServices(
	_ context.Context, r *holdfastv1.ListServicesRequest,
) (*holdfastv1.ListServicesResponse, error) {
	items, next := page(f.services, serviceID, r.GetPageSize(), r.GetPageToken())
	return &holdfastv1.ListServicesResponse{Services: items, NextPageToken: next}, nil
}

func (f *fakeCluster) GetService(_ context.Context, r *holdfastv1.GetServiceRequest) (*holdfastv1.Service, error) {
	for _, s := range f.services {
		if serviceID(s) == r.GetId() {
			return s, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "service %q not found", r.GetId())
}

func (f *fakeCluster) DeregisterService(
	context.Context, *holdfastv1.DeregisterServiceRequest,
) (*holdfastv1.Service, error) {
	return &holdfastv1.Service{}, nil
}

func (f *fakeCluster) CreateAgentMachine(
	_ context.Context, r *holdfastv1.CreateAgentMachineRequest,
) (*holdfastv1.CreateAgentMachineResponse, error) {
	return &holdfastv1.CreateAgentMachineResponse{Machine: &holdfastv1.Machine{MachineId: stdcmp.Or(r.GetMachineId(),
		"0a1b2c3d")}, Token: "the-token", TokenId: "tok-9"}, nil
}

func (f *fakeCluster) GetNode(_ context.Context, r *holdfastv1.GetNodeRequest) (*holdfastv1.Machine, error) {
	return fixtureNode(r.GetId()), nil
}

func (f *fakeCluster) UpdateNode(_ context.Context, r *holdfastv1.UpdateNodeRequest) (*holdfastv1.Machine, error) {
	return fixtureNode(r.GetId()), nil
}

func (f *fakeCluster) TransitionNode(
	_ context.Context, r *holdfastv1.TransitionNodeRequest,
) (*holdfastv1.Machine, error) {
	m := fixtureNode(r.GetId())
	m.Status.NodeState = r.GetState()
	return m, nil
}

func (f *fakeCluster) ListStalledNodes(
	_ context.Context, r *holdfastv1.ListStalledNodesRequest,
) (*holdfastv1.ListStalledNodesResponse, error) {
	nodes := f.stalled
	if nodes == nil {
		nodes = []*holdfastv1.Machine{fixtureNode("m-1")}
	}
	items, next := page(nodes, (*holdfastv1.Machine).GetMachineId, r.GetPageSize(), r.GetPageToken())
	return &holdfastv1.ListStalledNodesResponse{Machines: items, NextPageToken: next}, nil
}

func fixtureNode(id string) *holdfastv1.Machine {
	return &holdfastv1.Machine{MachineId: id, Spec: &holdfastv1.MachineSpec{MacAddresses: []string{"aa:bb:cc:dd:ee:ff"}},
		Status: &holdfastv1.MachineStatus{NodeState: holdfastv1.Node_INSTALLING},
		Node: &holdfastv1.NodeRecord{Hostname: "n1", WorkflowId: "plan/repave-join", InstallAttempts: 2,
			LastInstallError: "Disk not found", Vendor: "Acme",
			StateChangedAt: ago(2 * time.Hour), LastSeenAt: ago(time.Minute), Tags: []string{"r7"}}}
}

func TestMachineCreate(t *testing.T) {
	f := startCluster(t, fixture())
	var c command
	c.wantCode(t, c.run(t, f, "machine", "create", "--pool", "gpu", "--ttl", "1d"), app.ExitOK)
	if got := c.out.String(); got != "the-token\n" {
		t.Errorf("got output %q, want only the token", got)
	}
	wantIn(t, "stderr", c.err.String(), "machine 0a1b2c3d in pool gpu awaits its agent", "tok-9")
	want := &holdfastv1.CreateAgentMachineRequest{Pool: "gpu", TtlSeconds: 24 * 3600}
	if got := asked[*holdfastv1.CreateAgentMachineRequest](f); len(got) != 1 || !proto.Equal(got[0], want) {
		t.Errorf("got request %v, want %v", got, want)
	}
	for args, want := range map[string]string{"": "--pool is missing", "--pool gpu -o name": "would be lost"} {
		var c command
		c.wantCode(t, c.run(t, f, append([]string{"machine", "create"}, strings.Fields(args)...)...), app.ExitUsage)
		wantIn(t, args, c.err.String(), want)
	}
}

// The workflow is set before the approval.
func TestNodeApprove(t *testing.T) {
	f := startCluster(t, fixture())
	var c command
	c.wantCode(t, c.run(t, f, "node", "approve", "m-1", "--workflow", "plan/x", "--comment", "c", "--yes"), app.ExitOK)
	up, move := asked[*holdfastv1.UpdateNodeRequest](f), asked[*holdfastv1.TransitionNodeRequest](f)
	if len(up) != 1 || up[0].GetNode().GetWorkflowId() != "plan/x" ||
		strings.Join(up[0].GetPaths(), ",") != "workflow_id" {
		t.Errorf("got updates %v, want only the workflow", up)
	}
	want := &holdfastv1.TransitionNodeRequest{Id: "m-1", State: holdfastv1.Node_PENDING, Comment: "c"}
	if len(move) != 1 || !proto.Equal(move[0], want) {
		t.Errorf("got transitions %v, want %v", move, want)
	}
	var bad command
	bad.wantCode(t, bad.run(t, f, "node", "state", "m-1", "gone"), app.ExitUsage)
	wantIn(t, "stderr", bad.err.String(), `"gone" is not one of discovered, pending`)
}

// TestNodeStalledReadsAllPages has more nodes than one page.
func TestNodeStalledReadsAllPages(t *testing.T) {
	f := fixture()
	for n := range output.PageSize + 1 {
		f.stalled = append(f.stalled, fixtureNode(fmt.Sprintf("m-%d", n)))
	}
	startCluster(t, f)
	var c command
	c.wantCode(t, c.run(t, f, "node", "stalled", "--after", "30m", "-o", "name"), app.ExitOK)
	if got := strings.Count(c.out.String(), "\n"); got != output.PageSize+1 {
		t.Errorf("got %d listed nodes, want %d", got, output.PageSize+1)
	}
	for _, r := range asked[*holdfastv1.ListStalledNodesRequest](f) {
		if r.GetOlderThanSeconds() != 30*60 {
			t.Errorf("got request %v, want the same for each page", r)
		}
	}
}

func TestNodeTag(t *testing.T) {
	f := startCluster(t, fixture())
	for _, args := range []string{"node tag m-1 gpu rack-7", "node tag m-1 gpu --remove"} {
		var c command
		c.wantCode(t, c.run(t, f, strings.Fields(args)...), app.ExitOK)
		wantIn(t, args, c.out.String(), "m-1")
	}
	var got []string
	for _, r := range asked[*holdfastv1.UpdateNodeRequest](f) {
		got = append(got, r.GetId()+" "+strings.Join(r.GetPaths(), ",")+" "+strings.Join(r.GetNode().GetTags(), ","))
	}
	if diff := cmp.Diff([]string{"m-1 tags.add gpu,rack-7", "m-1 tags.remove gpu"}, got); diff != "" {
		t.Error(diff)
	}
	var c command
	c.wantCode(t, c.run(t, f, "node", "tag", "m-1"), app.ExitUsage)
	wantIn(t, "stderr", c.err.String(), "TAG... is missing")
}

func TestFleetVerbs(t *testing.T) {
	f := startCluster(t, fixture())
	for args, want := range map[string]string{
		"pool create gpu --gpu-type H100 --label a=b":                   "gpu",
		"machine bmc-retry m-1 m-2":                                     "allowed logins to the BMC of machine m-2",
		"pool delete cpu gpu --yes":                                     "deleted pool gpu",
		"service deregister 550e8400-e29b-41d4-a716-446655440000 --yes": "deregistered service",
		"node state m-1 active --force":                                 "active",
		"node get m-1 -o yaml":                                          "install_attempts: 2",
		"node history m-124":                                            "FACET",
	} {
		var c command
		c.wantCode(t, c.run(t, f, strings.Fields(args)...), app.ExitOK)
		wantIn(t, args, c.out.String()+c.err.String(), want)
	}
	var c command
	c.wantCode(t, c.run(t, f, "pool", "get", "nowhere"), app.ExitNotFound)
}
