package fsm_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

func registerPoolOp(id string) *internalv1.RegisterPool {
	return &internalv1.RegisterPool{TtlMs: 30_000,
		Pool: &holdfastv1.Pool{PoolId: id, Endpoint: "http://192.168.1.100:9200", NodeId: "gpu-node-1", Region: "EU",
			Version: "0.1.0",
			Gpus: []*holdfastv1.Gpu{{Id: 0, Model: "RTX 4090", TotalVramGb: new(float64(24)), ComputeCapability: "8.9"},
				{Id: 1, Model: "A100", TotalVramGb: new(float64(80))}}}}
}

// heartbeat records a heartbeat of a pool.
func heartbeat(t *testing.T, p *fsmtest.Peer, id string, clock int64, gpus ...*holdfastv1.Gpu) *holdfastv1.Pool {
	t.Helper()
	do(t, p, &internalv1.CheckpointLeases{ClockMs: clock * 1000,
		Leases: []*internalv1.SeenLease{{SeenMs: clock * 1000, Renewal: &internalv1.Renewal{Lease: ref(ofPool, id, 0),
			Pool: &internalv1.PoolReport{Gpus: gpus, WorkersTotal: 1, UptimeSeconds: 3600}}}}})
	return getPool(t, p, id)
}

func getPool(t *testing.T, p *fsmtest.Peer, id string) *holdfastv1.Pool {
	t.Helper()
	pool, ok := p.View().Pool(id)
	if !ok {
		t.Fatalf("pool %s not found", id)
	}
	return pool
}

func TestPoolStates(t *testing.T) {
	p := fsmtest.NewPeer()
	if got := do(t, p, registerPoolOp("p-1")).(*holdfastv1.Pool); got.GetStatus() != holdfastv1.Pool_REGISTERED ||
		got.GetDeclared() || got.GetAvailableVramGb() != 0 || got.GetLastHeartbeat() != nil {
		t.Errorf("registered: %v", got)
	}
	got := heartbeat(t, p, "p-1", 10, &holdfastv1.Gpu{Id: 0, TotalVramGb: new(float64(24)),
		AvailableVramGb: new(float64(8)), Workers: []string{"worker-abc"}, TemperatureCelsius: new(float64(65))},
		&holdfastv1.Gpu{Id: 2, AvailableVramGb: new(float64(1))})
	if got.GetStatus() != holdfastv1.Pool_HEALTHY || got.GetAvailableVramGb() != 8 ||
		!got.GetLastHeartbeat().AsTime().Equal(p.Now) || got.GetUptimeSeconds() != 3600 {
		t.Errorf("healthy: %v", got)
	}
	want := []*holdfastv1.Gpu{
		{Id: 0, Model: "RTX 4090", TotalVramGb: new(float64(24)), AvailableVramGb: new(float64(8)), ComputeCapability: "8.9",
			Workers: []string{"worker-abc"}, TemperatureCelsius: new(float64(65))},
		{Id: 1, Model: "A100", TotalVramGb: new(float64(80)),
			AvailableVramGb: new(float64(0))}} // not 2, which was never registered
	if diff := cmp.Diff(want, got.GetGpus(), protocmp.Transform()); diff != "" {
		t.Errorf("GPUs (-want +got):\n%s", diff)
	}
	expire(t, p, 39, ref(ofPool, "p-1", 1))
	if got := getPool(t, p, "p-1"); got.GetStatus() != holdfastv1.Pool_HEALTHY {
		t.Errorf("after less than three intervals: %v", got)
	}
	expire(t, p, 40, ref(ofPool, "p-1", 1))
	if got := getPool(t, p, "p-1"); got.GetStatus() != holdfastv1.Pool_UNAVAILABLE || got.GetAvailableVramGb() != 0 {
		t.Errorf("unavailable: %v", got)
	}
	if got := heartbeat(t, p, "p-1", 50); got.GetStatus() != holdfastv1.Pool_HEALTHY ||
		lease(t, p, ofPool, "p-1").GetTtlMs() != 30_000 {
		t.Errorf("after the next heartbeat: %v", got)
	}

	do(t, p, &internalv1.DeregisterPool{PoolId: "p-1", Reason: "graceful_shutdown"})
	drained := p.Now
	if got := getPool(t, p, "p-1"); got.GetStatus() != holdfastv1.Pool_DRAINING ||
		got.GetStatusReason() != "graceful_shutdown" || got.GetAvailableVramGb() != 0 {
		t.Errorf("draining: %v", got)
	}
	before := dump(t, p)
	do(t, p, &internalv1.DeregisterPool{PoolId: "p-1", Reason: "again"})
	heartbeat(t, p, "p-1", 50)
	do(t, p, &internalv1.SweepPools{PoolIds: []string{"p-1", "p-none"}}) // too early
	if diff := before.Diff(dump(t, p)); diff != "" {
		t.Errorf("a pool that was deregistered has changed:\n%s", diff)
	}
	if ids := p.View().DrainedPools(drained.Add(5*time.Minute - time.Second)); ids != nil {
		t.Errorf("drained too early: %v", ids)
	}
	p.Now = drained.Add(5 * time.Minute)
	if ids := p.View().DrainedPools(p.Now); len(ids) != 1 {
		t.Errorf("drained: got %v, want p-1", ids)
	}
	do(t, p, &internalv1.SweepPools{PoolIds: []string{"p-1"}})
	if got := getPool(t, p, "p-1"); got.GetStatus() != holdfastv1.Pool_ARCHIVED || got.GetEndpoint() == "" {
		t.Errorf("archived: %v", got)
	}
	do(t, p, &internalv1.DeregisterPool{PoolId: "p-1"})
	if got := heartbeat(t, p, "p-1", 60); got.GetStatus() != holdfastv1.Pool_ARCHIVED {
		t.Errorf("a heartbeat brought it back: %v", got)
	}
	do(t, p, registerPoolOp("p-1"))
	if got := getPool(t, p, "p-1"); got.GetStatus() != holdfastv1.Pool_REGISTERED || len(got.GetGpus()) != 2 ||
		lease(t, p, ofPool, "p-1").GetExpiredAt() != nil {
		t.Errorf("back: %v", got)
	}
	refused(t, p, &internalv1.DeregisterPool{PoolId: "p-none"}, fsm.NotFound, fsm.ReasonPoolNotFound)
}

// TestPoolFacets checks that declaration and registration do not affect each other.
func TestPoolFacets(t *testing.T) {
	p := fsmtest.NewPeer()
	do(t, p, &internalv1.CreatePool{Pool: &holdfastv1.Pool{PoolId: "gpu", GpuType: "A100",
		Labels: map[string]string{"team": "ml"}, Endpoint: "not taken", Status: holdfastv1.Pool_HEALTHY}})
	if got := getPool(t, p, "gpu"); got.GetProvider() != "generic" || got.GetStatus() != 0 || got.GetEndpoint() != "" ||
		!got.GetDeclared() {
		t.Errorf("declared: %v", got)
	}
	do(t, p, registerPoolOp("gpu"))
	if got := getPool(t, p, "gpu"); !got.GetDeclared() || got.GetGpuType() != "A100" ||
		got.GetLabels()["team"] != "ml" || got.GetEndpoint() == "" {
		t.Errorf("declared and registered: %v", got)
	}
	do(t, p, &internalv1.CreatePool{Pool: &holdfastv1.Pool{PoolId: "gpu", Provider: "lambda"}})
	if got := getPool(t, p, "gpu"); got.GetProvider() != "lambda" || got.GetGpuType() != "" ||
		got.GetStatus() != holdfastv1.Pool_REGISTERED || len(got.GetGpus()) != 2 {
		t.Errorf("declared anew: %v", got)
	}
	registerAgent(t, p, "m-1")
	refused(t, p, &internalv1.DeletePool{PoolId: "gpu"}, fsm.FailedPrecondition, fsm.ReasonPoolInUse)
	do(t, p, &internalv1.DeleteMachine{MachineId: "m-1"})
	do(t, p, &internalv1.DeletePool{PoolId: "gpu"}) // its manager is still registered
	if got := getPool(t, p, "gpu"); got.GetDeclared() || got.GetProvider() != "" ||
		got.GetStatus() != holdfastv1.Pool_REGISTERED {
		t.Errorf("no longer declared: %v", got)
	}
	refused(t, p, &internalv1.DeletePool{PoolId: "gpu"}, fsm.FailedPrecondition, fsm.ReasonPoolInUse)
	do(t, p, &internalv1.CreatePool{Pool: &holdfastv1.Pool{PoolId: "cpu"}})
	do(t, p, &internalv1.DeletePool{PoolId: "cpu"})
	refused(t, p, &internalv1.DeletePool{PoolId: "cpu"}, fsm.NotFound, fsm.ReasonPoolNotFound)
	for _, pool := range []*holdfastv1.Pool{nil, {PoolId: "a/b"}, {PoolId: "ok", Region: "a\nb"},
		{PoolId: "ok", Labels: map[string]string{"a b": ""}},
		{PoolId: "ok", Gpus: []*holdfastv1.Gpu{{Id: 1}, {Id: 1}}}, {PoolId: "ok",
			Gpus: []*holdfastv1.Gpu{{TotalVramGb: new(float64(-1))}}}} {
		refused(t, p, &internalv1.RegisterPool{Pool: pool}, fsm.InvalidArgument, "INVALID_FIELD")
	}
}

func TestPoolCounts(t *testing.T) {
	p := gpuPool(t)
	// This name has the other one as a prefix.
	do(t, p, &internalv1.CreatePool{Pool: &holdfastv1.Pool{PoolId: "gpu-2"}})
	do(t, p, agentOp("m-9", "gpu-2"))
	for _, id := range []string{"m-2", "m-3"} {
		registerAgent(t, p, id)
	}
	seen(t, p, 1, ref(ofMachine, "m-2", 0))
	if got := getPool(t, p, "gpu"); got.GetMachines() != 3 || got.GetMachinesReady() != 1 {
		t.Errorf("got %d machines, %d ready, want 3, 1", got.GetMachines(), got.GetMachinesReady())
	}
	var ids []string
	for m := range p.View().PoolMachines("gpu", "m-1") {
		ids = append(ids, m.GetMachineId())
	}
	if diff := cmp.Diff([]string{"m-2", "m-3"}, ids); diff != "" {
		t.Errorf("after m-1 (-want +got):\n%s", diff)
	}
	do(t, p, &internalv1.UpdateMachine{Machine: &holdfastv1.Machine{MachineId: "m-2",
		Spec: &holdfastv1.MachineSpec{Pool: "gpu-2"}}, Paths: []string{"spec.pool"}})
	if a, b := getPool(t, p, "gpu"), getPool(t, p, "gpu-2"); a.GetMachines() != 2 || a.GetMachinesReady() != 0 ||
		b.GetMachines() != 2 || b.GetMachinesReady() != 1 {
		t.Errorf("after a move: %v, %v", a, b)
	}
	for _, tt := range []struct {
		id, pool string
		want     bool
	}{{"m-1", "gpu", true}, {"m-2", "gpu-2", true}, {"m-2", "gpu", false}, {"m-9", "gpu", false},
		{"m-4711", "gpu", false}, {"m-1", "", false}, {"", "gpu", false}, {"2\x00m-2", "gpu-", false}} {
		if got := p.View().InPool(tt.id, tt.pool); got != tt.want {
			t.Errorf("%q in %q: got %v, want %v", tt.id, tt.pool, got, tt.want)
		}
	}
}

func TestPoolQuery(t *testing.T) {
	gpus := []*holdfastv1.Gpu{{Id: 0, Model: "RTX 4090", AvailableVramGb: new(float64(8))},
		{Id: 1, Model: "A100", AvailableVramGb: new(float64(60))}}
	healthy := &holdfastv1.Pool{Status: holdfastv1.Pool_HEALTHY, Region: "EU", Gpus: gpus}
	for _, tt := range []struct {
		name string
		q    fsm.PoolQuery
		pool *holdfastv1.Pool
		want bool
	}{
		{"anything", fsm.PoolQuery{}, &holdfastv1.Pool{}, true},
		{"enough", fsm.PoolQuery{MinFreeVRAM: 60}, healthy, true},
		{"not enough", fsm.PoolQuery{MinFreeVRAM: 60.5}, healthy, false},
		{"the other GPU has it", fsm.PoolQuery{MinFreeVRAM: 60, GPUModel: "rtx 4090"}, healthy, false},
		{"model and memory", fsm.PoolQuery{MinFreeVRAM: 60, GPUModel: "a100"}, healthy, true},
		{"model", fsm.PoolQuery{GPUModel: "H100"}, healthy, false},
		{"region", fsm.PoolQuery{Region: "eu"}, healthy, true},
		{"another region", fsm.PoolQuery{Region: "US", MinFreeVRAM: 1}, healthy, false},
		{"unavailable", fsm.PoolQuery{MinFreeVRAM: 1}, &holdfastv1.Pool{Status: holdfastv1.Pool_UNAVAILABLE, Gpus: gpus},
			false},
		{"unavailable, by model", fsm.PoolQuery{GPUModel: "A100"},
			&holdfastv1.Pool{Status: holdfastv1.Pool_UNAVAILABLE, Gpus: gpus}, true},
	} {
		if got := tt.q.Match(tt.pool); got != tt.want {
			t.Errorf("%s: got %t, want %t", tt.name, got, tt.want)
		}
	}
}

func TestProviders(t *testing.T) {
	p := fsmtest.NewPeer()
	op := &internalv1.RegisterProvider{Provider: &holdfastv1.PlatformProvider{ProviderId: "acme", Endpoint: "https://a",
		AuthTokenSha256: make([]byte, 32), TotalGpus: 8, Country: "DE"}}
	first := do(t, p, op).(*holdfastv1.PlatformProvider)
	if first.GetStatus() != "registered" {
		t.Errorf("got %v", first)
	}
	op.Provider = &holdfastv1.PlatformProvider{ProviderId: "acme", TotalGpus: 16}
	do(t, p, op)
	got, _ := p.View().Provider("acme")
	if got.GetTotalGpus() != 16 || got.GetCountry() != "" ||
		!got.GetCreatedAt().AsTime().Equal(first.GetCreatedAt().AsTime()) ||
		got.GetUpdatedAt().AsTime().Equal(first.GetUpdatedAt().AsTime()) {
		t.Errorf("after the second registration: %v", got)
	}
	do(t, p, &internalv1.DeleteProvider{ProviderId: "acme"})
	refused(t, p, &internalv1.DeleteProvider{ProviderId: "acme"}, fsm.NotFound, "PROVIDER_NOT_FOUND")
	if _, ok := p.View().Provider("acme"); ok {
		t.Error("a provider that was deleted is there")
	}
	refused(t, p, &internalv1.RegisterProvider{Provider: &holdfastv1.PlatformProvider{}}, fsm.InvalidArgument,
		"INVALID_FIELD")
	refused(t, p, &internalv1.RegisterProvider{Provider: &holdfastv1.PlatformProvider{ProviderId: "a",
		AuthTokenSha256: []byte("the token itself")}}, fsm.InvalidArgument, "INVALID_FIELD")
}
