package server

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
)

// TestAgentService checks that a machine is created with its own token, registers, and is
// listed once it is ready.
func TestAgentService(t *testing.T) {
	n := nodetest.New()
	_, c := serve(t, n, Config{})
	ctx := testCtx(t)
	agents, pools := holdfastv1.NewAgentServiceClient(c.conn), holdfastv1.NewPoolServiceClient(c.conn)

	_, err := agents.CreateAgentMachine(ctx, &holdfastv1.CreateAgentMachineRequest{Pool: "gpu"})
	wantError(t, err, codes.FailedPrecondition, fsm.ReasonPoolUnknown)
	if _, err := pools.CreatePool(ctx, &holdfastv1.CreatePoolRequest{Pool: &holdfastv1.Pool{PoolId: "gpu"}}); err != nil {
		t.Fatal(err)
	}
	made, err := agents.CreateAgentMachine(ctx, &holdfastv1.CreateAgentMachineRequest{Pool: "gpu"})
	if err != nil {
		t.Fatal(err)
	}
	id := made.GetMachine().GetMachineId()
	if len(id) != 8 || len(made.GetToken()) < 80 ||
		made.GetMachine().GetStatus().GetAgentState() != holdfastv1.Agent_PENDING {
		t.Errorf("got machine %q in %s with a token of %d characters", id, made.GetMachine().GetStatus().GetAgentState(),
			len(made.GetToken()))
	}
	_, err = agents.RegisterAgent(ctx, &holdfastv1.RegisterAgentRequest{MachineId: id})
	wantError(t, err, codes.InvalidArgument, "INVALID_FIELD")
	_, err = agents.RegisterAgent(ctx, &holdfastv1.RegisterAgentRequest{MachineId: id, PoolName: "none"})
	wantError(t, err, codes.FailedPrecondition, fsm.ReasonPoolUnknown)
	m, err := agents.RegisterAgent(ctx, &holdfastv1.RegisterAgentRequest{MachineId: id, PoolName: "gpu", Hostname: "w-1",
		CpuMillicores: 8000, GpuCount: 4})
	if err != nil || m.GetStatus().GetAgentState() != holdfastv1.Agent_REGISTERED ||
		m.GetAgent().GetProviderName() != "generic" {
		t.Fatalf("registered: %v, %v", m, err)
	}
	n.Do(t, &internalv1.CheckpointLeases{ClockMs: 1000,
		Leases: []*internalv1.SeenLease{{SeenMs: 1000, Renewal: &internalv1.Renewal{
			Lease: &internalv1.LeaseRef{Kind: internalv1.LeaseRef_MACHINE,
				Id: id}, Metrics: &holdfastv1.AgentMetrics{FreeGpuCount: 3}}}}})
	for _, r := range []*holdfastv1.ListAgentMachinesRequest{{}, {PoolName: "gpu"}, {ProviderName: "generic"}} {
		got, err := agents.ListAgentMachines(ctx, r)
		if err != nil || len(got.GetMachines()) != 1 || got.GetMachines()[0].GetAgent().GetMetrics().GetFreeGpuCount() != 3 {
			t.Errorf("%v: got %v, %v, want the machine with its metrics", r, got, err)
		}
	}
	for _, r := range []*holdfastv1.ListAgentMachinesRequest{{PoolName: "cpu"}, {ProviderName: "lambda"}} {
		if got, err := agents.ListAgentMachines(ctx, r); err != nil || len(got.GetMachines()) != 0 {
			t.Errorf("%v: got %v, %v, want none", r, got, err)
		}
	}
	_, err = pools.DeletePool(ctx, &holdfastv1.DeletePoolRequest{PoolId: "gpu"})
	wantError(t, err, codes.FailedPrecondition, fsm.ReasonPoolInUse)
}

func TestNodeService(t *testing.T) {
	n := nodetest.New()
	_, c := serve(t, n, Config{})
	ctx := testCtx(t)
	nodes := holdfastv1.NewNodeServiceClient(c.conn)
	const mac = "aa:bb:cc:dd:ee:01"

	m, err := nodes.CreateNode(ctx, &holdfastv1.CreateNodeRequest{MacAddress: "AA-BB-CC-DD-EE-01",
		Node: &holdfastv1.NodeRecord{Hostname: "n1"}})
	if err != nil || m.GetStatus().GetNodeState() != holdfastv1.Node_DISCOVERED || len(m.GetMachineId()) != 8 {
		t.Fatalf("created: %v, %v", m, err)
	}
	_, err = nodes.CreateNode(ctx, &holdfastv1.CreateNodeRequest{MacAddress: mac})
	wantError(t, err, codes.AlreadyExists, "MACHINE_CONFLICT")
	for _, id := range []string{mac, m.GetMachineId()} {
		if got, err := nodes.GetNode(ctx, &holdfastv1.GetNodeRequest{Id: id}); err != nil ||
			got.GetMachineId() != m.GetMachineId() {
			t.Errorf("GetNode(%s): %v, %v", id, got, err)
		}
	}
	_, err = nodes.GetNode(ctx, &holdfastv1.GetNodeRequest{Id: "none"})
	wantError(t, err, codes.NotFound, fsm.ReasonNodeNotFound)
	_, err = nodes.TransitionNode(ctx, &holdfastv1.TransitionNodeRequest{Id: mac, State: 77})
	wantError(t, err, codes.InvalidArgument, "INVALID_FIELD")
	_, err = nodes.TransitionNode(ctx, &holdfastv1.TransitionNodeRequest{Id: mac, State: holdfastv1.Node_ACTIVE})
	wantError(t, err, codes.FailedPrecondition, fsm.ReasonNodeTransition)
	if _, err := nodes.TransitionNode(ctx, &holdfastv1.TransitionNodeRequest{Id: mac, State: holdfastv1.Node_PENDING,
		Comment: "approved"}); err != nil {
		t.Fatal(err)
	}
	m, err = nodes.ReportNode(ctx, &holdfastv1.ReportNodeRequest{MacAddress: mac, InstallationStatus: "started",
		Facts: &holdfastv1.NodeRecord{Vendor: "ACME"}})
	if err != nil || m.GetStatus().GetNodeState() != holdfastv1.Node_INSTALLING ||
		m.GetStatus().GetEffectiveState() != holdfastv1.EffectiveState_PROVISIONING || m.GetNode().GetVendor() != "ACME" {
		t.Fatalf("after its start: %v, %v", m, err)
	}
	run, err := c.GetRun(ctx, &holdfastv1.GetRunRequest{RunId: m.GetStatus().GetActiveRunId()})
	if err != nil || !run.GetObserved() {
		t.Errorf("the run behind it: %v, %v", run, err)
	}
	// The state's clock is in the past, so nodes count as stalled by the wall clock.
	got, err := nodes.ListStalledNodes(ctx, &holdfastv1.ListStalledNodesRequest{})
	if err != nil || len(got.GetMachines()) != 1 {
		t.Errorf("stalled: %v, %v", got, err)
	}
	long := int64(time.Since(n.Peer.Now).Seconds()) + 3600
	if got, err := nodes.ListStalledNodes(ctx,
		&holdfastv1.ListStalledNodesRequest{OlderThanSeconds: long}); err != nil || len(got.GetMachines()) != 0 {
		t.Errorf("stalled for longer than it is there: %v, %v", got, err)
	}
	_, err = nodes.ReportNode(ctx, &holdfastv1.ReportNodeRequest{MacAddress: "02:00:00:00:00:99"})
	wantError(t, err, codes.NotFound, fsm.ReasonNodeNotFound)
	if m, err := nodes.UpdateNode(ctx,
		&holdfastv1.UpdateNodeRequest{Id: mac, Node: &holdfastv1.NodeRecord{Tags: []string{"GPU"}},
			Paths: []string{"tags.add"}}); err != nil ||
		m.GetNode().GetTags()[0] != "gpu" || m.GetNode().GetHostname() != "n1" {
		t.Errorf("updated: %v, %v", m, err)
	}
}

func TestNodesAreDiscoveredWhereThatIsOn(t *testing.T) {
	n := nodetest.New()
	_, c := serve(t, n, Config{AutoDiscover: true})
	m, err := holdfastv1.NewNodeServiceClient(c.conn).ReportNode(testCtx(t),
		&holdfastv1.ReportNodeRequest{MacAddress: "02:00:00:00:00:99", InstallationStatus: "started"})
	if err != nil || m.GetStatus().GetNodeState() != holdfastv1.Node_DISCOVERED || m.GetStatus().GetActiveRunId() != "" {
		t.Errorf("got %v, %v, want a node that awaits approval", m, err)
	}
}

func TestPoolService(t *testing.T) {
	n := nodetest.New()
	_, c := serve(t, n, Config{PlatformMarginPercent: 12.5})
	ctx := testCtx(t)
	pools := holdfastv1.NewPoolServiceClient(c.conn)
	for _, p := range []*holdfastv1.Pool{
		{PoolId: "p-1", Region: "EU", Gpus: []*holdfastv1.Gpu{{Model: "RTX 4090", TotalVramGb: new(float64(24))}},
			Status: holdfastv1.Pool_HEALTHY, Declared: true},
		{PoolId: "p-2", Region: "US"},
	} {
		got, err := pools.RegisterPool(ctx, &holdfastv1.RegisterPoolRequest{Pool: p})
		if err != nil || got.GetHeartbeatIntervalMs() != 10_000 ||
			got.GetPool().GetStatus() != holdfastv1.Pool_REGISTERED || got.GetPool().GetDeclared() {
			t.Errorf("registered: %v, %v", got, err)
		}
	}
	n.Do(t, &internalv1.CheckpointLeases{ClockMs: 1000,
		Leases: []*internalv1.SeenLease{{SeenMs: 1000, Renewal: &internalv1.Renewal{
			Lease: &internalv1.LeaseRef{Kind: internalv1.LeaseRef_POOL,
				Id: "p-1"}, Pool: &internalv1.PoolReport{Gpus: []*holdfastv1.Gpu{{AvailableVramGb: new(float64(8))}}}}}}})
	list := func(r *holdfastv1.ListPoolsRequest) (ids []string) {
		got, err := pools.ListPools(ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range got.GetPools() {
			ids = append(ids, p.GetPoolId())
		}
		return ids
	}
	for _, tt := range []struct {
		r    *holdfastv1.ListPoolsRequest
		want []string
	}{
		{&holdfastv1.ListPoolsRequest{}, []string{"p-1", "p-2"}},
		{&holdfastv1.ListPoolsRequest{MinAvailableVramGb: 8}, []string{"p-1"}},
		{&holdfastv1.ListPoolsRequest{MinAvailableVramGb: 8.5}, nil},
		{&holdfastv1.ListPoolsRequest{GpuModel: "rtx 4090", Region: "eu"}, []string{"p-1"}},
		{&holdfastv1.ListPoolsRequest{Region: "US"}, []string{"p-2"}},
		{&holdfastv1.ListPoolsRequest{Filter: "status = HEALTHY"}, []string{"p-1"}},
		{&holdfastv1.ListPoolsRequest{Filter: "declared = true"}, nil},
	} {
		if diff := cmp.Diff(tt.want, list(tt.r)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.r, diff)
		}
	}
	if _, err := pools.DeregisterPool(ctx, &holdfastv1.DeregisterPoolRequest{PoolId: "p-1",
		Reason: "graceful_shutdown"}); err != nil {
		t.Fatal(err)
	}
	if got := list(&holdfastv1.ListPoolsRequest{MinAvailableVramGb: 1}); got != nil {
		t.Errorf("a pool that was deregistered can be placed on: %v", got)
	}
	_, err := pools.GetPool(ctx, &holdfastv1.GetPoolRequest{PoolId: "none"})
	wantError(t, err, codes.NotFound, fsm.ReasonPoolNotFound)
	got, err := pools.RegisterProvider(ctx, &holdfastv1.RegisterProviderRequest{Provider: &holdfastv1.PlatformProvider{
		ProviderId: "acme", Status: "mine", AuthTokenSha256: make([]byte, 32)}})
	if err != nil || got.GetPlatformMarginPercent() != 12.5 || got.GetProvider().GetStatus() != "registered" ||
		got.GetProvider().GetAuthTokenSha256() != nil {
		t.Errorf("provider: %v, %v", got, err)
	}
	all, err := pools.ListProviders(ctx, &holdfastv1.ListProvidersRequest{})
	if err != nil || len(all.GetProviders()) != 1 || all.GetProviders()[0].GetAuthTokenSha256() != nil {
		t.Errorf("providers: %v, %v, want one without the hash of its token", all, err)
	}
	if p, _ := n.Peer.View().Provider("acme"); len(p.GetAuthTokenSha256()) != 32 {
		t.Errorf("stored: %v, want the hash of its token", p)
	}
}

// TestWatchServices checks that the stream has the current state, then each change once
// and in order, including the one with which a service stops matching.
func TestWatchServices(t *testing.T) {
	n := nodetest.New()
	_, c := serve(t, n, Config{})
	ctx := testCtx(t)
	registry := holdfastv1.NewRegistryServiceClient(c.conn)
	register := func(name string) string {
		s, err := registry.RegisterService(ctx,
			&holdfastv1.RegisterServiceRequest{Target: &holdfastv1.ServiceTarget{ServiceName: name, Host: "10.0.0.1",
				Port: 9090, ServiceType: "tool-invoker"}})
		if err != nil || len(s.GetTarget().GetId()) != 36 {
			t.Fatalf("registered: %v, %v", s, err)
		}
		return s.GetTarget().GetId()
	}
	one := register("one")
	watch := func(filter string, cursor uint64) func() *holdfastv1.ServiceEvent {
		stream, err := registry.WatchServices(ctx, &holdfastv1.WatchServicesRequest{Filter: filter, Cursor: cursor})
		if err != nil {
			t.Fatal(err)
		}
		return func() *holdfastv1.ServiceEvent {
			e, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
	}
	check := func(what string, e *holdfastv1.ServiceEvent, cursor uint64, name string, active bool) {
		t.Helper()
		if s := e.GetService(); e.GetCursor() != cursor || s.GetTarget().GetServiceName() != name || s.GetActive() != active {
			t.Errorf("%s: got %v, want cursor %d of %s, active: %t", what, e, cursor, name, active)
		}
	}
	all, active := watch("", 0), watch("active = true", 0)
	check("current", all(), 1, "one", true)
	check("current, active", active(), 1, "one", true)
	two := register("two") // 2
	if _, err := registry.UpdateServiceState(ctx, &holdfastv1.UpdateServiceStateRequest{Id: one,
		State: &holdfastv1.ServiceState{Reason: "no database"}}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{one, two} { // 4, 5
		if s, err := registry.DeregisterService(ctx, &holdfastv1.DeregisterServiceRequest{Id: id}); err != nil ||
			s.GetActive() {
			t.Fatalf("deregistered: %v, %v", s, err)
		}
	}
	for what, next := range map[string]func() *holdfastv1.ServiceEvent{"all": all, "active": active,
		"resumed": watch("active = true", 1)} {
		check(what, next(), 2, "two", true)
		check(what, next(), 3, "one", true)
		check(what, next(), 4, "one", false)
		check(what, next(), 5, "two", false)
	}
	bad, err := registry.WatchServices(ctx, &holdfastv1.WatchServicesRequest{Cursor: 99})
	if err == nil {
		_, err = bad.Recv()
	}
	wantError(t, err, codes.OutOfRange, fsm.ReasonCursorGone)

	_, err = registry.GetService(ctx, &holdfastv1.GetServiceRequest{Id: "none"})
	wantError(t, err, codes.NotFound, fsm.ReasonServiceNotFound)
	got, err := registry.ListServices(ctx, &holdfastv1.ListServicesRequest{Filter: `service_name = "two"`})
	if err != nil || len(got.GetServices()) != 1 || got.GetServices()[0].GetTarget().GetId() != two {
		t.Errorf("list: %v, %v", got, err)
	}
	_, err = registry.RegisterService(ctx,
		&holdfastv1.RegisterServiceRequest{Target: &holdfastv1.ServiceTarget{Id: "not a UUID", ServiceName: "x"}})
	wantError(t, err, codes.InvalidArgument, "INVALID_FIELD")
}
