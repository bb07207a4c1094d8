package fsm_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// from proposes an operation with an origin.
func from(p *fsmtest.Peer, o *internalv1.Origin, op proto.Message) fsm.Result {
	c := fsmtest.Command(op)
	c.Origin = o
	return p.Propose(c)[0]
}

// admin is a caller without limits.
func admin() *internalv1.Origin {
	return &internalv1.Origin{Source: "10.0.0.1:5000", Peer: "p1", Method: "/m", RequestId: "call-1",
		Role: holdfastv1.Role_ADMIN}
}

func operator(pools ...string) *internalv1.Origin {
	return &internalv1.Origin{Role: holdfastv1.Role_OPERATOR, Pools: pools}
}

func agent(machine string) *internalv1.Origin {
	return &internalv1.Origin{Role: holdfastv1.Role_AGENT, MachineId: machine}
}

func inPool(id, pool string, refs ...string) *holdfastv1.Machine {
	m := &holdfastv1.Machine{MachineId: id, Spec: &holdfastv1.MachineSpec{Pool: pool}}
	if len(refs) > 0 {
		m.Spec.BmcCredentialsRef = refs[0]
	}
	return m
}

// wantAnswer checks the code and reason of a result; "" means accepted.
func wantAnswer(t *testing.T, what string, r fsm.Result, code fsm.Code, reason string) {
	t.Helper()
	var gotCode fsm.Code
	var gotReason string
	if r.Err != nil {
		gotCode, gotReason = r.Err.Code, r.Err.Reason
	}
	if gotCode != code || gotReason != reason {
		t.Errorf("%s: got %v %q (%v), want %v %q", what, gotCode, gotReason, r.Err, code, reason)
	}
}

// TestEveryCommandIsAboutSomething checks that every command has a subject. Without one it
// would have no resource and no scope.
func TestEveryCommandIsAboutSomething(t *testing.T) {
	fields := (&internalv1.Command{}).ProtoReflect().Descriptor().Oneofs().ByName("op").Fields()
	for i := range fields.Len() {
		name := fields.Get(i).Name()
		p := fsmtest.NewPeer()
		c := &internalv1.Command{Origin: operator("pool-none")}
		c.ProtoReflect().Set(fields.Get(i), c.ProtoReflect().NewField(fields.Get(i)))
		before := dump(t, p)
		r := p.Propose(c)[0]
		events := slices.Collect(p.View().AuditEvents(0))
		if len(events) != 1 || events[0].GetResource() == "" {
			t.Errorf("%s: got the events %v, want one with a resource", name, events)
		}
		if r.Err == nil {
			t.Errorf("%s was not refused to a caller of another pool", name)
		}
		if diff := before.WithoutAudit().Diff(dump(t, p).WithoutAudit()); diff != "" {
			t.Errorf("%s: refused, and yet:\n%s", name, diff)
		}
	}
}

// withBMC returns a machine in a pool with the address of a BMC.
func withBMC(id, pool, endpoint string) *holdfastv1.Machine {
	m := inPool(id, pool)
	m.Spec.BmcEndpoint = endpoint
	return m
}

// TestPlacesOfWaves checks that a wave cannot take the machines of a pool to an address at which a
// peer would reach itself.
func TestPlacesOfWaves(t *testing.T) {
	p := fsmtest.NewPeer()
	if r := from(p, &internalv1.Origin{}, &internalv1.RegisterMachine{Machine: inPool("m-1", "a")}); r.Err != nil {
		t.Fatal(r.Err)
	}
	wave := &internalv1.StartWave{MachineIds: []string{"m-1"}, Wave: &holdfastv1.Wave{WaveId: "w", MaxParallel: 1,
		PlanId: "plan/net-reconfig", Params: map[string]string{"net_config": "x", "new_ssh_endpoint": "127.0.0.1"}}}
	r := from(p, &internalv1.Origin{Pools: []string{"a"}}, wave)
	if r.Err == nil || !strings.Contains(r.Err.Error(), "params.new_ssh_endpoint") {
		t.Errorf("limited to a pool: got %v, want a refusal of the endpoint", r.Err)
	}
	if r := from(p, &internalv1.Origin{}, wave); r.Err != nil {
		t.Errorf("of all pools: got %v", r.Err)
	}
}

func TestScope(t *testing.T) {
	set := func(m *holdfastv1.Machine, paths ...string) proto.Message {
		return &internalv1.UpdateMachine{Machine: m, Paths: paths}
	}
	const denied, scope = fsm.PermissionDenied, fsm.ReasonOutOfScope
	const unknownMAC = "52:54:00:00:00:99"
	for _, tt := range []struct {
		name   string
		origin *internalv1.Origin
		op     proto.Message
		code   fsm.Code
		reason string
		words  string
	}{
		{"a machine of the pool", operator("a"), &internalv1.SetMachinePhase{MachineId: "m-a", Phase: maintenance}, 0, "",
			""},
		{"one of two pools", operator("x", "a"), &internalv1.SetMachinePhase{MachineId: "m-a", Phase: maintenance}, 0, "",
			""},
		{"no limit", operator(), &internalv1.SetMachinePhase{MachineId: "m-none", Phase: maintenance}, 0, "", ""},
		{"a foreign machine", operator("a"), &internalv1.SetMachinePhase{MachineId: "m-b", Phase: maintenance},
			fsm.NotFound, "MACHINE_NOT_FOUND", `machine "m-b" not found`},
		{"a machine of no pool", operator("a"), &internalv1.SetMachinePhase{MachineId: "m-none", Phase: maintenance},
			fsm.NotFound, "MACHINE_NOT_FOUND", ""},
		{"a machine that is not there", operator("a"), &internalv1.SetMachinePhase{MachineId: "m-x", Phase: maintenance},
			fsm.NotFound, "MACHINE_NOT_FOUND", ""},
		{"delete a foreign machine", operator("a"), &internalv1.DeleteMachine{MachineId: "m-b"}, fsm.NotFound,
			"MACHINE_NOT_FOUND", ""},
		{"start a run", operator("a"), startOp("m-a", "r-2", "REBOOT", ""), 0, "", ""},
		{"start a foreign run", operator("a"), startOp("m-b", "r-2", "REBOOT", ""), fsm.NotFound, "MACHINE_NOT_FOUND", ""},
		{"replay a foreign run", operator("a"), startOp("m-b", "r-1", "REBOOT", ""), fsm.NotFound, "MACHINE_NOT_FOUND", ""},
		{"cancel a foreign run", operator("a"), &internalv1.CancelRun{RunId: "run-r-1"}, fsm.NotFound, "RUN_NOT_FOUND",
			`run "run-r-1" not found`},
		{"cancel a run", operator("b"), &internalv1.CancelRun{RunId: "run-r-1"}, 0, "", ""},
		{"cancel no run", operator("a"), &internalv1.CancelRun{RunId: "run-x"}, fsm.NotFound, "RUN_NOT_FOUND", ""},

		{"register into the pool", operator("a"), &internalv1.RegisterMachine{Machine: inPool("m-new", "a")}, 0, "", ""},
		{"register at the peers' own address", operator("a"), &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{
			MachineId: "m-new", Spec: &holdfastv1.MachineSpec{Pool: "a", BmcEndpoint: "https://127.0.0.1:7401"}}},
			fsm.InvalidArgument, "INVALID_FIELD", "is the peer itself"},
		{"register at a metadata service", operator("a"), &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{
			MachineId: "m-new", Spec: &holdfastv1.MachineSpec{Pool: "a", SshEndpoint: "[::ffff:169.254.169.254]:80"}}},
			fsm.InvalidArgument, "INVALID_FIELD", "link-local"},
		{"the same without a limit", operator(), &internalv1.UpdateMachine{Machine: &holdfastv1.Machine{
			MachineId: "m-a", Spec: &holdfastv1.MachineSpec{SshEndpoint: "127.0.0.1:22"}},
			Paths: []string{"spec.ssh_endpoint"}}, 0, "", ""},
		{"register into a foreign pool", operator("a"), &internalv1.RegisterMachine{Machine: inPool("m-new", "b")}, denied,
			scope, `is about pool "b"`},
		{"register into no pool", operator("a"), &internalv1.RegisterMachine{Machine: inPool("m-new", "")}, denied, scope,
			"would be in no pool"},
		{"register with an id of the server", operator("a"), &internalv1.RegisterMachine{GeneratedId: true,
			Machine: inPool("1b623d01", "")}, denied, scope,
			"the request would make a machine in no pool, and your scope is pool a"},
		{"the same for a foreign pool", operator("a"), &internalv1.RegisterMachine{GeneratedId: true,
			Machine: inPool("1b623d01", "b")}, denied, scope, `the request is about pool "b", and your scope is pool a`},
		{"a node with an id of the server", operator("a"), &internalv1.CreateNode{MachineId: "1b623d01", GeneratedId: true,
			MacAddress: unknownMAC}, denied, scope, "the request would make a machine in no pool, and your scope is pool a"},
		{"report of an unknown MAC address", operator("a"), &internalv1.ReportNode{MachineId: "1b623d01", Discover: true,
			Report: &holdfastv1.ReportNodeRequest{MacAddress: unknownMAC}}, denied, scope,
			"the request would make a machine in no pool, and your scope is pool a"},
		{"an agent's report of an unknown MAC address", agent("m-a"), &internalv1.ReportNode{MachineId: "1b623d01",
			Discover: true, Report: &holdfastv1.ReportNodeRequest{MacAddress: unknownMAC}}, denied, scope,
			`the request would make a machine, and this token is valid for machine "m-a" only`},
		{"register without a spec", operator("a"),
			&internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m-new"}}, denied, scope, "would be in no pool"},
		{"labels of a machine of the pool", operator("a"),
			&internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m-a",
				Labels: map[string]string{"x": "y"}}}, 0, "", ""},
		{"take a foreign machine over", operator("a"), &internalv1.RegisterMachine{Machine: inPool("m-b", "a")}, fsm.NotFound,
			"MACHINE_NOT_FOUND", "choose another one"},
		{"a foreign BMC address", operator("a"), &internalv1.RegisterMachine{Machine: withBMC("m-new", "a", "https://b-1")},
			fsm.AlreadyExists, "MACHINE_CONFLICT", "cannot be used"},
		{"a BMC address of the pool", operator("a"),
			&internalv1.RegisterMachine{Machine: withBMC("m-new", "a", "https://a-1")}, fsm.AlreadyExists, "MACHINE_CONFLICT",
			`belongs to machine "m-a1"`},
		{"a foreign MAC address", operator("a"), set(&holdfastv1.Machine{MachineId: "m-a",
			Spec: &holdfastv1.MachineSpec{MacAddresses: []string{"52:54:00:00:00:0b"}}}, "spec.mac_addresses"),
			fsm.AlreadyExists, "MACHINE_CONFLICT", "cannot be used"},
		{"move a machine away", operator("a"), set(inPool("m-a", "b"), "spec.pool"), denied, scope, `is about pool "b"`},
		{"move it between one's pools", operator("a", "b"), set(inPool("m-a", "b"), "spec.pool"), 0, "", ""},
		{"out of the pool by an empty spec", operator("a"), set(inPool("m-a", "")), denied, scope, ""},
		{"labels only", operator("a"), set(&holdfastv1.Machine{MachineId: "m-a", Labels: map[string]string{"x": "y"}},
			"labels"), 0, "", ""},
		{"a mask that does not exist", operator("a"), set(inPool("m-a", "a"), "status"), fsm.InvalidArgument,
			"INVALID_FIELD", ""},
		{"a plan", operator("a"), &internalv1.CreatePlan{Plan: planOf("p", "ssh")}, denied, scope,
			"plans/p belongs to no pool, and your scope is pool a"},
		{"a token", operator("a"), createToken("t-1", holdfastv1.Role_AGENT), denied, scope, ""},
		{"a secret", operator("a"), putSecret("s", 1), denied, scope, ""},
		{"the cluster", operator("a"), &internalv1.RemovePeer{Id: "p1"}, denied, scope, ""},

		{"an agent's other machine", agent("m-a"), &internalv1.SetMachinePhase{MachineId: "m-b", Phase: maintenance},
			denied, scope, `machine "m-b" is not machine "m-a"`},
		{"an agent's own machine", agent("m-a"), &internalv1.SetMachinePhase{MachineId: "m-a", Phase: maintenance}, 0, "",
			""},
		{"an agent that moves", agent("m-a"), set(inPool("m-a", "b"), "spec.pool"), denied, scope, "cannot move it"},
		{"an agent and a plan", agent("m-a"), &internalv1.DeletePlan{PlanId: "plan/reboot"}, denied, scope, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := fsmtest.NewPeer()
			for _, m := range []*holdfastv1.Machine{inPool("m-a", "a", "bmc-a"), inPool("m-a2", "a"),
				inPool("m-b", "b", "bmc-b"), inPool("m-none", "")} {
				do(t, p, &internalv1.RegisterMachine{Machine: m})
			}
			do(t, p, &internalv1.RegisterMachine{Machine: withBMC("m-a1", "a", "https://a-1")})
			foreign := withBMC("m-b1", "b", "https://b-1")
			foreign.Spec.MacAddresses = []string{"52:54:00:00:00:0b"}
			do(t, p, &internalv1.RegisterMachine{Machine: foreign})
			start(t, p, "m-b", "r-1", "REBOOT", "")
			before := dump(t, p)
			r := from(p, tt.origin, tt.op)
			wantAnswer(t, tt.name, r, tt.code, tt.reason)
			if r.Err != nil && tt.code != denied { // the answer about a foreign record says nothing about it
				for _, word := range append(slices.Collect(maps.Values(r.Err.Meta)), strings.Fields(r.Err.Message)...) {
					if strings.Trim(word, `",`) == "b" {
						t.Errorf("got the answer %q with %v, which names the other pool", r.Err.Message, r.Err.Meta)
					}
				}
			}
			if tt.words != "" && (r.Err == nil || !strings.Contains(r.Err.Message, tt.words)) {
				t.Errorf("got the message %v, want %q in it", r.Err, tt.words)
			}
			if diff := before.WithoutAudit().Diff(dump(t, p).WithoutAudit()); r.Err != nil && diff != "" {
				t.Errorf("refused, and yet:\n%s", diff)
			}
		})
	}
}

func TestOriginsToken(t *testing.T) {
	op := func() proto.Message { return &internalv1.SetMachinePhase{MachineId: "m-1", Phase: maintenance} }
	for _, tt := range []struct {
		name   string
		token  *holdfastv1.Token
		edge   func(o *internalv1.Origin, p *fsmtest.Peer)
		code   fsm.Code
		reason string
	}{
		{"good", &holdfastv1.Token{Role: holdfastv1.Role_OPERATOR}, nil, 0, ""},
		{"unknown", &holdfastv1.Token{Role: holdfastv1.Role_OPERATOR},
			func(o *internalv1.Origin, _ *fsmtest.Peer) { o.TokenId = "t-2" }, fsm.Unauthenticated, fsm.ReasonTokenUnknown},
		{"revoked", &holdfastv1.Token{Role: holdfastv1.Role_OPERATOR}, func(_ *internalv1.Origin, p *fsmtest.Peer) {
			p.Do(&internalv1.RevokeToken{TokenId: "t-1"})
		}, fsm.Unauthenticated, fsm.ReasonTokenRevoked},
		{"expired", &holdfastv1.Token{Role: holdfastv1.Role_OPERATOR,
			ExpiresAt: timestamppb.New(fsmtest.NewPeer().Now.Add(time.Minute))}, func(_ *internalv1.Origin, p *fsmtest.Peer) {
			p.Now = p.Now.Add(time.Minute)
		}, fsm.Unauthenticated, fsm.ReasonTokenExpired},
		{"an edge that forgets the pools", &holdfastv1.Token{Role: holdfastv1.Role_OPERATOR, Pools: []string{"a"}}, nil,
			fsm.NotFound, "MACHINE_NOT_FOUND"},
		{"an edge that forgets the machine", &holdfastv1.Token{Role: holdfastv1.Role_AGENT, MachineId: "m-2"}, nil,
			fsm.PermissionDenied, fsm.ReasonOutOfScope},
		{"an edge that says less", &holdfastv1.Token{Role: holdfastv1.Role_OPERATOR},
			func(o *internalv1.Origin, _ *fsmtest.Peer) { o.Pools = []string{"a"} }, fsm.NotFound, "MACHINE_NOT_FOUND"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := fsmtest.NewPeer()
			register(t, p, "m-1", ready)
			tok := proto.CloneOf(tt.token)
			tok.TokenId, tok.Name = "t-1", "ci"
			do(t, p, &internalv1.CreateToken{Token: &internalv1.StoredToken{Token: tok, Sha256: fsmtest.TokenValue("t-1")}})
			o := &internalv1.Origin{TokenId: "t-1", Role: tt.token.GetRole()}
			if tt.edge != nil {
				tt.edge(o, p)
			}
			wantAnswer(t, "with the token", from(p, o, op()), tt.code, tt.reason)
			phase := maintenance
			if tt.code != 0 {
				phase = ready
			}
			if got := getMachine(t, p, "m-1").GetStatus().GetPhase(); got != phase {
				t.Errorf("the machine is %v, want %v", got, phase)
			}
		})
	}
}

// TestScopedCallersStayInTheirPools draws logs. A caller with a scope must not change, create
// or delete a machine outside of it, nor change data that belongs to no pool.
func TestScopedCallersStayInTheirPools(t *testing.T) {
	allowed, refused := 0, 0
	check := func(t interface{ Fatalf(string, ...any) }, p *fsmtest.Peer, c *internalv1.Command) {
		pools, machine := c.GetOrigin().GetPools(), c.GetOrigin().GetMachineId()
		if tok, ok := p.View().Token(c.GetOrigin().GetTokenId()); ok && len(pools) == 0 && machine == "" {
			pools, machine = tok.GetPools(), tok.GetMachineId()
		}
		before := p.View()
		r := p.Propose(c)[0]
		if len(pools) == 0 && machine == "" {
			return
		}
		if r.Err == nil {
			allowed++
		} else {
			refused++
		}
		mine := func(m *holdfastv1.Machine) bool {
			return m.GetMachineId() == machine || machine == "" && slices.Contains(pools, m.GetSpec().GetPool())
		}
		// A machine that the caller registers or deletes is its own before and after.
		owned := func(id string) bool {
			was, existed := before.Machine(id)
			is, exists := p.View().Machine(id)
			return existed && mine(was) || exists && mine(is)
		}
		if diff := cmp.Diff(foreign(before, mine, owned), foreign(p.View(), mine, owned)); diff != "" {
			t.Fatalf("entry %d: %v has changed what is outside its scope:\n%s", p.Index, c, diff)
		}
		was := destinations(before)
		for at, secret := range destinations(p.View()) {
			s, ok := before.Secret(secret)
			own := machine == "" && ok && len(s.GetSecret().GetPools()) > 0 &&
				!slices.ContainsFunc(s.GetSecret().GetPools(), func(p string) bool { return !slices.Contains(pools, p) })
			if was[at] != secret && !own {
				t.Fatalf("entry %d: %v of pools %v sends secret %s, of %v, to %s", p.Index, c, pools, secret,
					s.GetSecret().GetPools(), at)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		p, g := furnished(), &fsmtest.Generator{Chooser: drawn{t}}
		for range rapid.IntRange(1, 40).Draw(t, "length") {
			check(t, p, g.Next(p.View()))
		}
	})
	for seed := range uint64(60) {
		p, g := furnished(), &fsmtest.Generator{Chooser: seeded{rand.New(rand.NewPCG(seed, 7))}}
		for range 120 {
			c := g.Next(p.View())
			// The address of a machine, to which secrets are sent.
			if n := g.Chooser.Choose("address", 100); n < 10 {
				c = fsmtest.Command(&internalv1.UpdateMachine{Machine: &holdfastv1.Machine{MachineId: fmt.Sprintf("m-%d", n%5),
					Spec: &holdfastv1.MachineSpec{BmcEndpoint: fmt.Sprintf("at-%d", p.Index)}}, Paths: []string{"spec.bmc_endpoint"}})
				c.Origin = operator(fmt.Sprintf("pool-%d", g.Chooser.Choose("pool", 3)))
			}
			if c.GetOrigin() != nil && g.Chooser.Choose("scoped", 2) == 0 {
				c.Origin.TokenId, c.Origin.Pools = "", []string{fmt.Sprintf("pool-%d", g.Chooser.Choose("pool", 3))}
			}
			check(t, p, c)
		}
	}
	if allowed < 50 || refused < 50 {
		t.Errorf("%d commands of scoped callers were allowed and %d refused, want 50 of both: this proves little", allowed,
			refused)
	}
}

// destinations returns the secrets that are sent to each address of a machine.
func destinations(v *fsm.View) map[string]string {
	all := map[string]string{}
	for m := range v.Machines("") {
		for kind, ref := range map[string][2]string{"bmc": {m.GetSpec().GetBmcEndpoint(), m.GetSpec().GetBmcCredentialsRef()},
			"ssh": {m.GetSpec().GetSshEndpoint(), m.GetSpec().GetSshCredentialsRef()}} {
			if ref[1] != "" {
				all[fmt.Sprintf("%s of %s at %q by %q", kind, m.GetMachineId(), ref[0], fsm.ProviderOf(m))] = ref[1]
			}
		}
	}
	return all
}

// foreign returns the data that a scoped caller must not change: machines of others, their
// runs, tokens, secrets and the ids of plans. Tokens of owned machines change with the machine.
func foreign(v *fsm.View, mine func(*holdfastv1.Machine) bool, owned func(id string) bool) map[string]string {
	all, own := map[string]string{}, map[string]bool{}
	for m := range v.Machines("") {
		if own[m.GetMachineId()] = mine(m); !own[m.GetMachineId()] {
			all["machine "+m.GetMachineId()] = m.String()
		}
	}
	for _, r := range v.Runs("") {
		if mine, exists := own[r.GetMachineId()]; exists && !mine {
			r.QueuePosition = 0 // other runs before it may end
			all["run "+r.GetRunId()] = r.String()
		}
	}
	for tok := range v.Tokens("") {
		if !owned(tok.GetMachineId()) {
			all["token "+tok.GetTokenId()] = tok.String()
		}
	}
	for s := range v.Secrets("") {
		s.Secret.Uses, s.Secret.UsedBy = 0, nil
		all["secret "+s.GetSecret().GetName()] = s.String()
	}
	for p := range v.Plans("") {
		all["plan "+p.GetPlanId()] = "" // the caller's own run marks it as referenced
	}
	return all
}
