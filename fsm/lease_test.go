package fsm_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

const (
	ofMachine = internalv1.LeaseRef_MACHINE
	ofPending = internalv1.LeaseRef_PENDING_MACHINE
	ofPool    = internalv1.LeaseRef_POOL
	ofService = internalv1.LeaseRef_SERVICE
)

// uuid is the id of a service.
const uuid = "550e8400-e29b-41d4-a716-446655440000"

// gpuPool returns a peer with the pool "gpu" and the machine m-1 in it, registered by its
// agent with a lease of 300 s.
func gpuPool(t *testing.T) *fsmtest.Peer {
	t.Helper()
	p := fsmtest.NewPeer()
	do(t, p, &internalv1.CreatePool{Pool: &holdfastv1.Pool{PoolId: "gpu"}})
	registerAgent(t, p, "m-1")
	return p
}

func registerAgent(t *testing.T, p *fsmtest.Peer, id string) *holdfastv1.Machine {
	t.Helper()
	return do(t, p, agentOp(id, "gpu")).(*holdfastv1.Machine)
}

func agentOp(id, pool string) *internalv1.RegisterAgent {
	return &internalv1.RegisterAgent{TtlMs: 300_000, Agent: &holdfastv1.RegisterAgentRequest{MachineId: id,
		PoolName: pool, Hostname: "gpu-worker-1",
		CpuMillicores: 8000, MemoryMib: 16384, GpuCount: 1, PrivateIp: "192.168.1.100"}}
}

// ref returns a reference to a generation of a lease.
func ref(kind internalv1.LeaseRef_Kind, id string, generation uint64) *internalv1.LeaseRef {
	return &internalv1.LeaseRef{Kind: kind, Id: id, Generation: generation}
}

// seen records a heartbeat, at a value of the lease clock in seconds.
func seen(t *testing.T, p *fsmtest.Peer, clock int64, r *internalv1.LeaseRef) {
	t.Helper()
	do(t, p, &internalv1.CheckpointLeases{ClockMs: clock * 1000,
		Leases: []*internalv1.SeenLease{{SeenMs: clock * 1000, Renewal: &internalv1.Renewal{Lease: r}}}})
}

func expire(t *testing.T, p *fsmtest.Peer, clock int64, refs ...*internalv1.LeaseRef) {
	t.Helper()
	do(t, p, &internalv1.ExpireLeases{ClockMs: clock * 1000, Leases: refs})
}

func lease(t *testing.T, p *fsmtest.Peer, kind internalv1.LeaseRef_Kind, id string) *internalv1.Lease {
	t.Helper()
	l, ok := p.View().Lease(kind, id)
	if !ok {
		t.Fatalf("lease %v of %s not found", kind, id)
	}
	return l
}

func agentState(t *testing.T, p *fsmtest.Peer, id string) holdfastv1.Agent_State {
	t.Helper()
	return getMachine(t, p, id).GetStatus().GetAgentState()
}

func TestNoLeaseExpiresEarly(t *testing.T) {
	for _, tt := range []struct {
		name       string
		seen       int64 // newest heartbeat, on the lease clock in seconds; the grant is at 0
		clock      int64 // of the expiry
		generation uint64
		want       bool
	}{
		{"its time is up", 0, 300, 1, true},
		{"long after", 0, 10_000, 1, true},
		{"a millisecond's second early", 0, 299, 1, false},
		{"a heartbeat came first", 100, 399, 1, false},
		{"its time is up after a heartbeat", 100, 400, 1, true},
		{"another generation", 0, 300, 2, false},
		{"no generation", 0, 300, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := gpuPool(t)
			if tt.seen > 0 {
				seen(t, p, tt.seen, ref(ofMachine, "m-1", 1))
			}
			p.Now = p.Now.Add(24 * time.Hour) // the wall clock steps, which leases ignore
			expire(t, p, tt.clock, ref(ofMachine, "m-1", tt.generation), ref(ofMachine, "m-none", 1))
			if got := lease(t, p, ofMachine, "m-1").GetExpiredAt() != nil; got != tt.want {
				t.Errorf("expired: got %t, want %t", got, tt.want)
			}
			if got := agentState(t, p, "m-1") == holdfastv1.Agent_EXPIRED; got != tt.want {
				t.Errorf("agent: got %s, want it expired: %t", agentState(t, p, "m-1"), tt.want)
			}
			if p.View().LeaseClock() != tt.clock*1000 {
				t.Errorf("lease clock: got %d, want %d", p.View().LeaseClock(), tt.clock*1000)
			}
		})
	}
}

func TestLeaseClockNeverGoesBack(t *testing.T) {
	p := gpuPool(t)
	seen(t, p, 200, ref(ofMachine, "m-1", 1))
	seen(t, p, 50, ref(ofMachine, "m-1", 1)) // from a leader whose clock started too early
	if l := lease(t, p, ofMachine, "m-1"); l.GetSeenMs() != 200_000 || p.View().LeaseClock() != 200_000 {
		t.Errorf("seen at %d with the clock at %d, want 200000 both", l.GetSeenMs(), p.View().LeaseClock())
	}
	do(t, p, &internalv1.CheckpointLeases{ClockMs: 210_000,
		Leases: []*internalv1.SeenLease{{SeenMs: 900_000, Renewal: &internalv1.Renewal{Lease: ref(ofMachine, "m-1", 1)}}}})
	if l := lease(t, p, ofMachine, "m-1"); l.GetSeenMs() != 210_000 {
		t.Errorf("seen at %d, which is after the lease clock's 210000", l.GetSeenMs())
	}
}

func TestLastSeenIsWallTime(t *testing.T) {
	p := gpuPool(t)
	do(t, p, &internalv1.CheckpointLeases{ClockMs: 60_000,
		Leases: []*internalv1.SeenLease{{SeenMs: 55_000, AgeMs: 0,
			Renewal: &internalv1.Renewal{Lease: ref(ofMachine, "m-1", 1)}}}})
	newest := p.Now
	if got := lease(t, p, ofMachine, "m-1").GetLastSeen().AsTime(); !got.Equal(newest) {
		t.Errorf("last seen: got %s, want %s", got, newest)
	}
	do(t, p, &internalv1.CheckpointLeases{ClockMs: 61_000,
		Leases: []*internalv1.SeenLease{{SeenMs: 50_000, AgeMs: 30_000,
			Renewal: &internalv1.Renewal{Lease: ref(ofMachine, "m-1", 1)}}}})
	if got := lease(t, p, ofMachine, "m-1").GetLastSeen().AsTime(); !got.Equal(newest) {
		t.Errorf("last seen went back to %s from %s", got, newest)
	}
}

func TestCheckpointSkipsEndedLeases(t *testing.T) {
	p := gpuPool(t)
	registerAgent(t, p, "m-2")
	registerAgent(t, p, "m-1") // generation 2
	do(t, p, &internalv1.DeleteMachine{MachineId: "m-2"})
	before := dump(t, p)
	seen(t, p, 0, ref(ofMachine, "m-1", 1))
	seen(t, p, 0, ref(ofMachine, "m-2", 1))
	seen(t, p, 0, ref(ofMachine, "m-2", 0))
	seen(t, p, 0, ref(ofMachine, "m-none", 0))
	seen(t, p, 0, ref(ofPool, "gpu", 0)) // declared, without a manager
	seen(t, p, 0, ref(ofService, uuid, 0))
	seen(t, p, 0, ref(0, "m-1", 0))
	if diff := before.Diff(dump(t, p)); diff != "" {
		t.Errorf("something has changed:\n%s", diff)
	}
}

func TestLeasesChangedSince(t *testing.T) {
	p := gpuPool(t)
	from := p.Index
	names := func(since uint64) []string {
		var got []string
		for l := range p.View().LeasesChangedSince(since) {
			got = append(got, l.GetRef().GetKind().String()+"/"+l.GetRef().GetId())
		}
		return got
	}
	seen(t, p, 1, ref(ofMachine, "m-1", 1)) // the lease itself is unchanged
	if got := names(from); got != nil {
		t.Errorf("after a heartbeat: got %v, want none", got)
	}
	registerAgent(t, p, "m-2")
	do(t, p, &internalv1.RegisterPool{Pool: &holdfastv1.Pool{PoolId: "p-1"}})
	if diff := cmp.Diff([]string{"MACHINE/m-2", "POOL/p-1"}, names(from)); diff != "" {
		t.Errorf("grants (-want +got):\n%s", diff)
	}
	from = p.Index
	expire(t, p, 1000, ref(ofMachine, "m-1", 1))
	do(t, p, &internalv1.DeleteMachine{MachineId: "m-2"})
	do(t, p, &internalv1.DeregisterPool{PoolId: "p-1"})
	if diff := cmp.Diff([]string{"MACHINE/m-1", "MACHINE/m-2", "POOL/p-1"}, names(from)); diff != "" {
		t.Errorf("ends (-want +got):\n%s", diff)
	}
	for l := range p.View().Leases() {
		if l.GetExpiredAt() == nil {
			t.Errorf("%v is not over", l)
		}
	}
}

func TestEndedLeasesAreForgottenAfterAnHour(t *testing.T) {
	p := gpuPool(t)
	do(t, p, &internalv1.DeleteMachine{MachineId: "m-1"})
	p.Now = p.Now.Add(59 * time.Minute)
	expire(t, p, 0)
	lease(t, p, ofMachine, "m-1")
	registerAgent(t, p, "m-1")
	if g := lease(t, p, ofMachine, "m-1").GetRef().GetGeneration(); g != 2 {
		t.Errorf("generation after another registration: got %d, want 2", g)
	}
	do(t, p, &internalv1.DeleteMachine{MachineId: "m-1"})
	p.Now = p.Now.Add(time.Hour)
	expire(t, p, 0)
	if l, ok := p.View().Lease(ofMachine, "m-1"); ok {
		t.Errorf("lease is still there: %v", l)
	}
	registerAgent(t, p, "m-1") // heartbeats to the lease before it may still be on their way
	if g := lease(t, p, ofMachine, "m-1").GetRef().GetGeneration(); g != 3 {
		t.Errorf("generation after the lease was forgotten: got %d, want 3", g)
	}
	registerAgent(t, p, "m-7")
	if g := lease(t, p, ofMachine, "m-7").GetRef().GetGeneration(); g < 3 {
		t.Errorf("generation of another machine: got %d, want none that may be of an earlier lease", g)
	}
}

func TestStaleLeadersMoveNoLease(t *testing.T) {
	p := gpuPool(t)
	p.Lead(2)
	for _, op := range []*internalv1.Command{
		fsmtest.Command(&internalv1.ExpireLeases{ClockMs: 400_000, Leases: []*internalv1.LeaseRef{ref(ofMachine, "m-1", 1)}}),
		fsmtest.Command(&internalv1.CheckpointLeases{ClockMs: 400_000}),
		fsmtest.Command(&internalv1.SweepPools{}),
	} {
		op.Epoch = 1
		if r := p.Propose(op)[0]; r.Err == nil || r.Err.Reason != fsm.ReasonStaleEpoch {
			t.Errorf("%v: got %v, want %s", op, r.Err, fsm.ReasonStaleEpoch)
		}
	}
	if p.View().LeaseClock() != 0 || lease(t, p, ofMachine, "m-1").GetExpiredAt() != nil {
		t.Error("a leader that was replaced has moved a lease")
	}
}

// TestManyExpireInOneEntry expires the leases of a rack at once. Each machine has its own
// history.
func TestManyExpireInOneEntry(t *testing.T) {
	p := gpuPool(t)
	ids := []string{"m-1", "m-2", "m-3"}
	var refs []*internalv1.LeaseRef
	for _, id := range ids {
		registerAgent(t, p, id)
		refs = append(refs, ref(ofMachine, id, lease(t, p, ofMachine, id).GetRef().GetGeneration()))
	}
	seen(t, p, 200, refs[2])
	expire(t, p, 350, refs...)
	for i, id := range ids {
		want := holdfastv1.Agent_EXPIRED
		if i == 2 {
			want = holdfastv1.Agent_READY
		}
		if got := agentState(t, p, id); got != want {
			t.Errorf("%s: got %s, want %s", id, got, want)
		}
		if h := history(p, id); (want == holdfastv1.Agent_EXPIRED) != slices.Contains(h, "agent: REGISTERED -> EXPIRED") {
			t.Errorf("%s: history %v", id, h)
		}
	}
}
