package auth

import (
	"strings"
	"testing"

	_ "google.golang.org/grpc/health/grpc_health_v1"
	_ "google.golang.org/grpc/reflection/grpc_reflection_v1"
	_ "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/holdfast-metal/holdfast/internal/secrets"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// methods returns every method of every service that a peer can serve.
func methods(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	protoregistry.GlobalFiles.RangeFiles(func(fd protoreflect.FileDescriptor) bool {
		for i := range fd.Services().Len() {
			s := fd.Services().Get(i)
			for j := range s.Methods().Len() {
				all[string(s.FullName())+"/"+string(s.Methods().Get(j).Name())] = true
			}
		}
		return true
	})
	if len(all) < 60 {
		t.Fatalf("got only %d methods in the registry", len(all))
	}
	return all
}

// TestPolicyIsComplete checks that every method has a rule, and every rule a method.
func TestPolicyIsComplete(t *testing.T) {
	all, rules := methods(t), policy()
	for m := range all {
		if r, ok := rules[m]; !ok || !r.set() {
			t.Errorf("%s has no rule: give it option (access) in its .proto file", m)
		}
	}
	for m := range rules {
		if !all[m] {
			t.Errorf("got a rule for the missing method %s", m)
		}
	}
}

// installers are the methods for machines that are being installed, with the access check
// of each: such machines have no credentials yet.
func installers() map[string]string {
	return map[string]string{
		"holdfast.v1.InstallService/BootMachine": "a MAC address that a session waits for (docs/netboot.md: who " +
			"is on that network is trusted)",
		"holdfast.v1.InstallService/ReportInstall":    "the token of the session, in the request",
		"holdfast.v1.InstallService/AppendInstallLog": "the token of the session, in the request",
	}
}

// ownSession is the method with which everybody ends a session of their own, and an admin any.
const ownSession = "holdfast.v1.SessionService/EndSession"

// TestChangesNeedRole checks that no method that changes something is public, or allowed to every
// caller or to viewers.
func TestChangesNeedRole(t *testing.T) {
	for m, r := range policy() {
		if readOnly(m) || r.Peers || installers()[m] != "" || m == ownSession {
			continue
		}
		if r.Public || r.Anyone || r.Least == holdfastv1.Role_VIEWER {
			t.Errorf("%s changes something, but %s may call it", m, r.Needs())
		}
	}
	if readOnly("holdfast.v1.RunService/StartRun") || !readOnly("holdfast.v1.RunService/GetRun") ||
		!readOnly("grpc.health.v1.Health/Check") {
		t.Error("readOnly: got false for a read")
	}
}

func TestRules(t *testing.T) {
	id := func(role holdfastv1.Role_Value, pools ...string) *holdfastv1.Identity {
		return &holdfastv1.Identity{Principal: "x", Role: role, Pools: pools, Method: MethodToken}
	}
	agent := &holdfastv1.Identity{Principal: "agent:m-1", Role: holdfastv1.Role_AGENT, MachineId: "m-1",
		Method: MethodToken}
	peer := &holdfastv1.Identity{Principal: "peer:n2", Method: MethodCertificate}
	const alive, plan, run = "holdfast.v1.HeartbeatService/KeepMachineAlive", "holdfast.v1.PlanService/CreatePlan",
		"holdfast.v1.RunService/StartRun"
	for _, tt := range []struct {
		method string
		id     *holdfastv1.Identity
		req    proto.Message
		reason string
	}{
		{alive, agent, &holdfastv1.KeepMachineAliveRequest{MachineId: "m-1"}, ""},
		{alive, agent, &holdfastv1.KeepMachineAliveRequest{MachineId: "m-2"}, ReasonNotOwn},
		{alive, agent, nil, ""}, // the route, before the body was read
		{alive, &holdfastv1.Identity{Role: holdfastv1.Role_AGENT}, &holdfastv1.KeepMachineAliveRequest{}, ReasonNotOwn},
		// its pool is checked later
		{alive, id(holdfastv1.Role_POOL_AGENT, "a"), &holdfastv1.KeepMachineAliveRequest{MachineId: "m-2"}, ""},
		{alive, id(holdfastv1.Role_POOL_AGENT), &holdfastv1.KeepMachineAliveRequest{MachineId: "m-2"}, ReasonNotOwn},
		{alive, id(holdfastv1.Role_OPERATOR), &holdfastv1.KeepMachineAliveRequest{MachineId: "m-1"}, ReasonRole},
		{alive, id(holdfastv1.Role_ADMIN), &holdfastv1.KeepMachineAliveRequest{MachineId: "m-1"}, ""},
		{alive, id(holdfastv1.Role_SERVICE), nil, ReasonRole},
		{"holdfast.v1.HeartbeatService/HeartbeatPool", id(holdfastv1.Role_POOL_AGENT, "a"),
			&holdfastv1.HeartbeatPoolRequest{PoolId: "a"}, ""},
		{"holdfast.v1.HeartbeatService/HeartbeatPool", id(holdfastv1.Role_POOL_AGENT, "a"),
			&holdfastv1.HeartbeatPoolRequest{PoolId: "b"}, ReasonNotOwn},
		{"holdfast.v1.PoolService/RegisterPool", id(holdfastv1.Role_POOL_AGENT, "a"),
			&holdfastv1.RegisterPoolRequest{Pool: &holdfastv1.Pool{PoolId: "a"}}, ""},
		{"holdfast.v1.PoolService/RegisterPool", id(holdfastv1.Role_POOL_AGENT, "a"),
			&holdfastv1.RegisterPoolRequest{Pool: &holdfastv1.Pool{PoolId: "b"}}, ReasonNotOwn},
		{"holdfast.v1.PoolService/RegisterPool", id(holdfastv1.Role_POOL_AGENT, "a"), &holdfastv1.RegisterPoolRequest{},
			ReasonNotOwn},
		{plan, id(holdfastv1.Role_OPERATOR), nil, ""},
		{plan, id(holdfastv1.Role_OPERATOR, "a"), nil, ReasonScope},
		{plan, id(holdfastv1.Role_VIEWER), nil, ReasonRole},
		{run, id(holdfastv1.Role_OPERATOR, "a"), nil, ""}, // the FSM checks the machine's pool
		{run, id(holdfastv1.Role_ROLE_UNSPECIFIED), nil, ReasonRole},
		{run, agent, nil, ReasonRole},
		{run, peer, nil, ReasonRole},
		{run, nil, nil, ReasonRole},
		{"holdfast.internal.v1.PeerService/Leave", peer, nil, ""},
		{"holdfast.internal.v1.PeerService/Leave", id(holdfastv1.Role_ADMIN), nil, ReasonPeersOnly},
		{"holdfast.internal.v1.PeerService/Leave", &holdfastv1.Identity{Principal: "peer:n2", Role: holdfastv1.Role_ADMIN,
			Method: MethodToken}, nil, ReasonPeersOnly},
		{"holdfast.internal.v1.PeerService/Leave", anonymous(), nil, ""},
		{"holdfast.v1.AccessService/WhoAmI", agent, nil, ""},
		{"grpc.health.v1.Health/Check", nil, nil, ""},
	} {
		r := policy()[tt.method]
		got := ""
		if err := r.allows(tt.id, tt.req, tt.method); err != nil {
			got = err.Reason
		}
		if got != tt.reason {
			t.Errorf("%s by %v: got %q, want %q", tt.method, tt.id, got, tt.reason)
		}
	}
}

// TestNoRule checks that a method without a rule is refused, even to admins.
func TestNoRule(t *testing.T) {
	g := newGate(t, &fakeRecords{}, Config{Insecure: true})
	if _, err := g.Enter(t.Context(), "/holdfast.v1.RunService/Nothing"); reasonOf(err) != ReasonNoRule {
		t.Errorf("got %v", err)
	}
	ctx := NewContext(t.Context(), &Caller{Identity: anonymous()})
	if err := g.Authorize(ctx, "/holdfast.v1.RunService/Nothing", nil); reasonOf(err) != ReasonNoRule {
		t.Errorf("got %v", err)
	}
	defer func() {
		if r := recover(); r == nil || !strings.Contains(r.(string), "no rule") {
			t.Errorf("got %v", r)
		}
	}()
	g.NewMux().HandleFunc("GET /x", SameAs("holdfast.v1.RunService/Nothing"), nil, nil)
}

// TestUnauthenticatedCall checks that no handler is reached without an authenticated caller.
func TestUnauthenticatedCall(t *testing.T) {
	g := newGate(t, &fakeRecords{}, Config{Insecure: true})
	if err := g.Authorize(t.Context(), "/holdfast.v1.RunService/GetRun", nil); reasonOf(err) != ReasonNoCredentials {
		t.Errorf("got %v", err)
	}
}

func TestResourceOf(t *testing.T) {
	secret, _ := secrets.NewToken()
	for _, tt := range []struct {
		req       proto.Message
		want, rid string
	}{
		{nil, "", ""},
		{&holdfastv1.StartRunRequest{MachineId: "m-1", RequestId: "r-1"}, "machines/m-1", "r-1"},
		{&holdfastv1.CancelRunRequest{RunId: "run-1"}, "runs/run-1", ""},
		{&holdfastv1.RegisterMachineRequest{Machine: &holdfastv1.Machine{MachineId: "m-1"}}, "machines/m-1", ""},
		{&holdfastv1.CreatePlanRequest{Plan: &holdfastv1.Plan{PlanId: "plan/x"}}, "plans/plan/x", ""},
		{&holdfastv1.StartRunRequest{MachineId: secret, RequestId: "two words"}, "", ""}, // a misplaced token
		{&holdfastv1.RegisterMachineRequest{}, "", ""},
	} {
		if got, rid := resourceOf(tt.req); got != tt.want || rid != tt.rid {
			t.Errorf("%v: got %q %q, want %q %q", tt.req, got, rid, tt.want, tt.rid)
		}
	}
}
