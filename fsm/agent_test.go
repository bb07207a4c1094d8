package fsm_test

import (
	"crypto/sha256"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

func storedToken(id, value string) *internalv1.StoredToken {
	sum := sha256.Sum256([]byte(value))
	return &internalv1.StoredToken{Token: &holdfastv1.Token{TokenId: id, Name: "agent"}, Sha256: sum[:]}
}

func awaitOp(id string) *internalv1.CreateAgentMachine {
	return &internalv1.CreateAgentMachine{MachineId: id, Pool: "gpu", PendingTtlMs: 3_600_000,
		Token: storedToken("t-"+id, "secret of "+id)}
}

// TestAgentStates follows the agent's state machine: pending, registered, ready, and the
// transitions out of each.
func TestAgentStates(t *testing.T) {
	p := gpuPool(t)
	m := do(t, p, awaitOp("m-2")).(*holdfastv1.Machine)
	if s := m.GetStatus(); s.GetAgentState() != holdfastv1.Agent_PENDING || s.GetPhase() != ready ||
		m.GetSpec().GetPool() != "gpu" || m.GetAgent().GetProviderName() != "generic" {
		t.Errorf("created: got %v", m)
	}
	if l := lease(t, p, ofPending, "m-2"); l.GetTtlMs() != 3_600_000 {
		t.Errorf("pending lease: got %v, want an hour", l)
	}
	sum := sha256.Sum256([]byte("secret of m-2"))
	if tok, ok := p.View().TokenByHash(sum[:]); !ok || tok.GetMachineId() != "m-2" ||
		tok.GetRole() != holdfastv1.Role_AGENT {
		t.Errorf("token: got %v, %t, want one that is good for m-2", tok, ok)
	}

	m = registerAgent(t, p, "m-2")
	if s := m.GetStatus(); s.GetAgentState() != holdfastv1.Agent_REGISTERED || m.GetAgent().GetLastKeepalive() != nil ||
		m.GetAgent().GetCpuMillicores() != 8000 {
		t.Errorf("registered: got %v", m)
	}
	if lease(t, p, ofPending, "m-2").GetExpiredAt() == nil {
		t.Error("the pending lease goes on")
	}
	do(t, p, &internalv1.CheckpointLeases{ClockMs: 60_000,
		Leases: []*internalv1.SeenLease{{SeenMs: 60_000, Renewal: &internalv1.Renewal{Lease: ref(ofMachine, "m-2", 1),
			AgentVersion: "0.1.0-python", Metrics: &holdfastv1.AgentMetrics{FreeGpuCount: 1}}}}})
	m = getMachine(t, p, "m-2")
	if a := m.GetAgent(); m.GetStatus().GetAgentState() != holdfastv1.Agent_READY ||
		a.GetAgentVersion() != "0.1.0-python" || a.GetMetrics().GetFreeGpuCount() != 1 ||
		!a.GetLastKeepalive().AsTime().Equal(p.Now) {
		t.Errorf("ready: got %v", m)
	}
	if c := cond(m, "AgentReady"); !c.GetStatus() {
		t.Errorf("condition of a ready machine: %v", c)
	}
	heard := m.GetAgent().GetLastKeepalive()

	expire(t, p, 360, ref(ofMachine, "m-2", 1))
	m = getMachine(t, p, "m-2")
	if c := cond(m, "AgentReady"); m.GetStatus().GetAgentState() != holdfastv1.Agent_EXPIRED || c.GetStatus() ||
		c.GetReason() != "AgentExpired" {
		t.Errorf("expired: got %v", m)
	}
	same(t, "last keepalive of an expired machine", heard, m.GetAgent().GetLastKeepalive())
	seen(t, p, 361, ref(ofMachine, "m-2", 0))
	if s := agentState(t, p, "m-2"); s != holdfastv1.Agent_EXPIRED {
		t.Errorf("after a keepalive of an expired machine: got %s, want it to register first", s)
	}
	m = registerAgent(t, p, "m-2")
	same(t, "last keepalive after another registration", heard, m.GetAgent().GetLastKeepalive())
	seen(t, p, 370, ref(ofMachine, "m-2", 2))
	registerAgent(t, p, "m-2") // a ready machine becomes registered again
	want := []string{"phase:  -> READY", "agent:  -> PENDING", "agent: PENDING -> REGISTERED",
		"agent: REGISTERED -> READY",
		"condition: AgentReady=false -> AgentReady=true (AgentKeepalive)", "agent: READY -> EXPIRED",
		"condition: AgentReady=true (AgentKeepalive) -> AgentReady=false (AgentExpired)",
		"agent: EXPIRED -> REGISTERED", "agent: REGISTERED -> READY",
		"condition: AgentReady=false (AgentRegistered) -> AgentReady=true (AgentKeepalive)",
		"agent: READY -> REGISTERED", "condition: AgentReady=true (AgentKeepalive) -> AgentReady=false (AgentRegistered)"}
	if diff := cmp.Diff(want, history(p, "m-2")); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
}

// TestKeepaliveMakesAnyKnownMachineReady includes a machine that has never registered
// (docs/clients.md, 000).
func TestKeepaliveMakesAnyKnownMachineReady(t *testing.T) {
	p := gpuPool(t)
	do(t, p, awaitOp("m-2"))
	register(t, p, "m-3", ready)
	seen(t, p, 1, ref(ofMachine, "m-2", 0))
	seen(t, p, 2, ref(ofMachine, "m-3", 0))
	for _, id := range []string{"m-2", "m-3"} {
		if s, l := agentState(t, p, id), lease(t, p, ofMachine, id); s != holdfastv1.Agent_READY || l.GetTtlMs() != 300_000 {
			t.Errorf("%s: got %s with %v, want it READY with a lease of 300 s", id, s, l)
		}
	}
	if lease(t, p, ofPending, "m-2").GetExpiredAt() == nil {
		t.Error("the pending lease of m-2 goes on")
	}
}

func TestPendingMachineExpires(t *testing.T) {
	p := gpuPool(t)
	do(t, p, awaitOp("m-2"))
	expire(t, p, 3599, ref(ofPending, "m-2", 1))
	if s := agentState(t, p, "m-2"); s != holdfastv1.Agent_PENDING {
		t.Errorf("after less than an hour: %s", s)
	}
	expire(t, p, 3600, ref(ofPending, "m-2", 1))
	if s := agentState(t, p, "m-2"); s != holdfastv1.Agent_EXPIRED {
		t.Errorf("after an hour: %s", s)
	}
	c := awaitOp("m-2") // it may wait for its agent again, with another token
	c.Token = storedToken("t-new", "another secret")
	do(t, p, c)
	if tok, _ := p.View().Token("t-m-2"); tok.GetRevokedAt() == nil {
		t.Error("the first token is good for ever")
	}
	if l := lease(t, p, ofPending, "m-2"); l.GetRef().GetGeneration() != 2 || l.GetExpiredAt() != nil {
		t.Errorf("pending lease: got %v, want generation 2", l)
	}
	registerAgent(t, p, "m-2")
}

func TestAgentRefusals(t *testing.T) {
	p := gpuPool(t)
	do(t, p, &internalv1.CreatePool{Pool: &holdfastv1.Pool{PoolId: "cpu", Provider: "lambda"}})
	register(t, p, "m-3", ready)
	register(t, p, "m-4", retired)
	in := func(change func(*internalv1.CreateAgentMachine)) *internalv1.CreateAgentMachine {
		c := awaitOp("m-9")
		change(c)
		return c
	}
	for _, tt := range []struct {
		name   string
		op     *internalv1.CreateAgentMachine
		code   fsm.Code
		reason string
	}{
		{"no such pool", in(func(c *internalv1.CreateAgentMachine) { c.Pool = "none" }), fsm.FailedPrecondition,
			"POOL_UNKNOWN"},
		{"no id", in(func(c *internalv1.CreateAgentMachine) { c.MachineId = "" }), fsm.InvalidArgument, "INVALID_FIELD"},
		{"id in use", in(func(c *internalv1.CreateAgentMachine) { c.MachineId, c.GeneratedId = "m-1", true }), fsm.Aborted,
			fsm.ReasonIDTaken},
		{"agent is there", in(func(c *internalv1.CreateAgentMachine) { c.MachineId = "m-1" }), fsm.AlreadyExists,
			"MACHINE_CONFLICT"},
		{"in another pool", in(func(c *internalv1.CreateAgentMachine) { c.MachineId = "m-3" }), fsm.AlreadyExists,
			"MACHINE_CONFLICT"},
		{"token without an id", in(func(c *internalv1.CreateAgentMachine) { c.Token.Token = nil }), fsm.InvalidArgument,
			"INVALID_FIELD"},
	} {
		t.Run(tt.name, func(t *testing.T) { refused(t, p, tt.op, tt.code, tt.reason) })
	}
	if e := refused(t, p, agentOp("m-9", "none"), fsm.FailedPrecondition,
		"POOL_UNKNOWN"); e.Message != "Invalid pool name" {
		t.Errorf("message: got %q, want the document's", e.Message)
	}
	// An agent cannot move its machine to another pool.
	refused(t, p, agentOp("m-1", "cpu"), fsm.FailedPrecondition, "POOL_UNKNOWN")
	refused(t, p, agentOp("", "gpu"), fsm.InvalidArgument, "INVALID_FIELD")
	refused(t, p, agentOp("m-4", "gpu"), fsm.FailedPrecondition, "MACHINE_RETIRED")
	bad := agentOp("m-9", "gpu")
	bad.Agent.Hostname = "two\nlines"
	refused(t, p, bad, fsm.InvalidArgument, "INVALID_FIELD")

	// A machine's token does not create a deleted machine again. A pool's token creates
	// unknown machines.
	for role, want := range map[holdfastv1.Role_Value]string{holdfastv1.Role_AGENT: "MACHINE_NOT_FOUND",
		holdfastv1.Role_POOL_AGENT: ""} {
		c := fsmtest.Command(agentOp("m-new-"+role.String(), "gpu")) // the order of a map is random
		c.Origin = &internalv1.Origin{Role: role, Pools: []string{"gpu"}}
		r := p.Propose(c)[0]
		if got := r.Err; (got == nil) != (want == "") || got != nil && got.Reason != want {
			t.Errorf("a new machine by role %s: got %v, want %q", role, got, want)
		}
	}
	for _, o := range []*internalv1.Origin{{Role: holdfastv1.Role_AGENT, MachineId: "m-1"},
		{Role: holdfastv1.Role_POOL_AGENT, Pools: []string{"gpu"}}} {
		c := fsmtest.Command(agentOp("m-1", "none"))
		c.Origin = o
		if r := p.Propose(c)[0]; r.Err == nil || r.Err.Message != "Invalid pool name" {
			t.Errorf("an unknown pool by role %s: got %v", o.GetRole(), r.Err)
		}
	}
	if m := getMachine(t, p, "m-new-POOL_AGENT"); m.GetSpec().GetPool() != "gpu" ||
		m.GetAgent().GetProviderName() != "generic" {
		t.Errorf("made on the fly: %v", m)
	}
	// The machine is only in the inventory, and in no pool yet.
	if m := registerAgent(t, p, "m-3"); m.GetSpec().GetPool() != "gpu" {
		t.Errorf("registered into %q", m.GetSpec().GetPool())
	}
}

func TestRegistrationKeepsIdentity(t *testing.T) {
	p := fsmtest.NewPeer()
	do(t, p, &internalv1.CreatePool{Pool: &holdfastv1.Pool{PoolId: "gpu"}})
	do(t, p, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m-1",
		Labels: map[string]string{"rack": "r7"}, Spec: &holdfastv1.MachineSpec{Serial: "S1"}}})
	p.Now = p.Now.Add(time.Minute)
	m := registerAgent(t, p, "m-1")
	if m.GetLabels()["rack"] != "r7" || m.GetSpec().GetSerial() != "S1" ||
		m.GetCreatedAt().AsTime().After(p.Now.Add(-time.Minute)) {
		t.Errorf("got %v, want its labels, serial and age as they were", m)
	}
	do(t, p, &internalv1.DeleteMachine{MachineId: "m-1"})
	if l := lease(t, p, ofMachine, "m-1"); !l.GetGone() {
		t.Errorf("the lease of a deleted machine: %v", l)
	}
}
