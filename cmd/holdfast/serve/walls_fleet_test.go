package serve

import (
	"log/slog"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/internal/secrets"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/httpjson/apitest"
	"github.com/holdfast-metal/holdfast/server/netbootapi"
	"github.com/holdfast-metal/holdfast/server/ui/history"
)

// tenant is the owner of a pool. Every text that it has anywhere contains its name, so that an
// answer to another tenant can be searched for it.
type tenant struct {
	name string // the mark
	mac  string // its machines' addresses begin with it
	ip   string // as do their IP addresses
}

// The two tenants. All callers are of the first one.
var (
	own     = tenant{"alfa", "02:a1:fa", "10.61."}
	foreign = tenant{"bravo", "02:b7:a0", "10.62."}
)

// marks are the texts by which a tenant is recognized.
func (o tenant) marks() []string { return []string{o.name, o.mac, o.ip} }

func (o tenant) pool() string          { return "pool-" + o.name }
func (o tenant) machine() string       { return "m-" + o.name }      // all facets, with runs that ended
func (o tenant) busy() string          { return "m-busy-" + o.name } // with an active run and an installation
func (o tenant) agent() string         { return "m-agent-" + o.name }
func (o tenant) run() string           { return "run-" + o.name }
func (o tenant) activeRun() string     { return "run-busy-" + o.name }
func (o tenant) wave() string          { return "wave-" + o.name }
func (o tenant) provider() string      { return "provider-" + o.name }
func (o tenant) secret() string        { return "bmc/" + o.name }
func (o tenant) macOf(n string) string { return o.mac + ":00:00:" + n }

// reused is the id of a machine that belonged to the other tenant before.
const reused = "m-reused"

// infrastructure is the mark of what only callers without a scope may see.
const infrastructure = "underfloor"

// service is of no pool.
const markedService = "7e57ab1e-0000-4000-8000-00000000000f"

// fleet is a peer with both tenants.
type fleet struct {
	*apitest.Lab
	rpc    grpc.ClientConnInterface
	mux    *auth.Mux
	tokens map[string]string // by kind of caller
}

// wallCallers are the callers of the first tenant, by kind.
func wallCallers() map[string]*holdfastv1.Token {
	return map[string]*holdfastv1.Token{
		"viewer":     {Role: holdfastv1.Role_VIEWER, Pools: []string{own.pool()}},
		"operator":   {Role: holdfastv1.Role_OPERATOR, Pools: []string{own.pool()}},
		"pool agent": {Role: holdfastv1.Role_POOL_AGENT, Pools: []string{own.pool()}},
		"enroller":   {Role: holdfastv1.Role_ENROLLER, Pools: []string{own.pool()}},
		"agent":      {Role: holdfastv1.Role_AGENT, MachineId: own.agent()},
	}
}

// newFleet returns a peer on which both tenants have one of everything.
func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{tokens: map[string]string{}}
	f.Lab = apitest.New(t, func(m *auth.Mux, rpc grpc.ClientConnInterface, s *server.Server) {
		for _, add := range apis(s, netbootapi.Config{}, history.New(history.Config{}, nil, nil),
			secrets.NewSessions(nil, time.Now), slog.New(slog.DiscardHandler)) {
			add(m, rpc)
		}
		f.rpc, f.mux = rpc, m
	})
	f.SetStatus(&holdfastv1.ClusterStatus{ClusterId: "c", Leader: "p1", AnsweredBy: "p1", Peers: []*holdfastv1.Peer{
		{Id: "p1", Alive: true, Leader: true, Suffrage: "voter", RaftAddr: infrastructure + "-1:7402",
			GossipAddr: infrastructure + "-1:7403", Warning: "disk of " + infrastructure},
		{Id: "p2", Suffrage: "voter", RaftAddr: infrastructure + "-2:7402", Error: "dial " + infrastructure + "-2:7400"},
	}})
	f.DoAs("tester", &internalv1.RegisterService{NewId: markedService, TtlMs: 60_000, Target: &holdfastv1.ServiceTarget{
		Id: markedService, ServiceName: infrastructure, ServiceType: "tool-invoker", Host: infrastructure, Port: 9090}})
	f.DoAs("tester", &internalv1.CreatePlan{Plan: &holdfastv1.Plan{PlanId: "one", Steps: []*holdfastv1.Step{
		{Name: "ssh", Kind: &holdfastv1.Step_Ssh{Ssh: &holdfastv1.SshCommand{Command: "true"}}}}}})
	for _, o := range []tenant{own, foreign} {
		f.furnish(o)
	}
	// A machine of the first tenant whose id the second one used before.
	for _, o := range []tenant{foreign, own} {
		by := "token:op-" + o.name
		f.DoAs(by, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: reused, Labels: o.labels(),
			Spec: &holdfastv1.MachineSpec{Pool: o.pool(), Provider: "fake"}}})
		f.fail(by, reused, "run-reused-"+o.name, o)
		if o == foreign {
			f.DoAs(by, &internalv1.DeleteMachine{MachineId: reused})
		}
	}
	for kind, tok := range wallCallers() {
		f.tokens[kind] = f.NewToken(tok)
	}
	return f
}

func (o tenant) labels() map[string]string { return map[string]string{"team": o.name, o.name: "yes"} }

// furnish makes one of everything for a tenant.
func (f *fleet) furnish(o tenant) {
	f.Helper()
	by := "token:op-" + o.name
	f.DoAs(by, &internalv1.CreatePool{Pool: &holdfastv1.Pool{PoolId: o.pool(), Labels: o.labels(), GpuType: o.name}})
	f.DoAs(by, &internalv1.RegisterPool{TtlMs: 15_000, Pool: &holdfastv1.Pool{PoolId: o.pool(),
		Endpoint: "http://" + o.name + ".example:9200", NodeId: "node-" + o.name, Region: "region-" + o.name,
		Version: o.name, Gpus: []*holdfastv1.Gpu{{Id: 1, Model: "gpu-" + o.name, Workers: []string{"w-" + o.name}}}}})
	f.DoAs(by, &internalv1.RegisterProvider{Provider: &holdfastv1.PlatformProvider{ProviderId: o.provider(),
		PoolId: o.pool(), Endpoint: "https://" + o.name + ".example", Region: o.name, GpuModels: []string{o.name}}})
	f.DoAs(by, &internalv1.PutSecret{Secret: &internalv1.StoredSecret{
		Sealed: &internalv1.Sealed{KeyId: "k", Ciphertext: []byte{1}},
		Secret: &holdfastv1.Secret{Name: o.secret(), Version: 1, Type: "bmc", Keys: []string{"password"},
			Pools: []string{o.pool()}}}})
	for i, id := range []string{o.machine(), o.busy()} {
		n := []string{"01", "02"}[i]
		f.DoAs(by, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: id, Labels: o.labels(),
			Spec: &holdfastv1.MachineSpec{Pool: o.pool(), Provider: "fake", MacAddresses: []string{o.macOf(n)},
				Serial: "serial-" + n + o.name, BmcEndpoint: "https://bmc" + n + "." + o.name + ".example",
				SshEndpoint: "ssh" + n + "." + o.name + ".example:22", BmcCredentialsRef: o.secret(),
				Location: "hall-" + o.name, Rack: "rack-" + o.name, CustomerId: "customer-" + o.name}}})
		f.DoAs(by, &internalv1.UpdateNode{Id: id, Paths: []string{"hostname", "ip_address", "tags", "group_id"},
			Node: &holdfastv1.NodeRecord{Hostname: "host-" + n + o.name, IpAddress: o.ip + "0.1",
				Tags: []string{"tag-" + o.name}, GroupId: "group-" + o.name}})
		f.DoAs("system", &internalv1.ObserveConditions{Machines: []*internalv1.MachineConditions{{MachineId: id,
			Conditions: []*holdfastv1.Condition{{Type: "Degraded", Status: true, Reason: "DiskFailed",
				Message: "disk of " + o.name, ObservedAt: timestamppb.New(time.Date(2026, 1, 29, 15, 10, 0, 0, time.UTC))}}}}})
	}
	f.DoAs(by, &internalv1.CreateAgentMachine{MachineId: o.agent(), Pool: o.pool(), ProviderName: "of-" + o.name,
		PendingTtlMs: time.Hour.Milliseconds(), Token: &internalv1.StoredToken{Sha256: make32(o.name),
			Token: &holdfastv1.Token{TokenId: "tok-agent-" + o.name, Name: "agent-" + o.name}}})
	f.DoAs("agent:"+o.agent(), &internalv1.RegisterAgent{TtlMs: 60_000, Agent: &holdfastv1.RegisterAgentRequest{
		MachineId: o.agent(), Hostname: "agent-" + o.name, ProviderName: "of-" + o.name, PoolName: o.pool(),
		CpuMillicores: 8000, MemoryMib: 1024, PrivateIp: o.ip + "0.2"}})
	f.fail(by, o.machine(), o.run(), o)
	f.DoAs(by, &internalv1.StartRun{RunId: o.activeRun(), MachineId: o.busy(), RequestId: "req-busy-" + o.name,
		PlanId: "one", DefaultTimeoutSeconds: 60, CheckedProvider: "fake"})
	f.DoAs("system", &internalv1.BeginAttempt{RunId: o.activeRun(), Step: "ssh", Attempt: 1})
	f.DoAs("system", &internalv1.NoteProgress{RunId: o.activeRun(), Step: "ssh", Attempt: 1,
		Wait: &holdfastv1.Wait{Kind: holdfastv1.Wait_ANSWER, Subject: "host of " + o.name}})
	f.DoAs("system", &internalv1.AppendRunLogs{Appends: []*internalv1.LogAppend{{RunId: o.activeRun(),
		Chunks: []*holdfastv1.LogChunk{{Stream: "stdout", Data: []byte("log of " + o.name)}}}}})
	f.DoAs(by, &internalv1.StartRun{RunId: "run-console-" + o.name, MachineId: o.busy(),
		RequestId: "req-console-" + o.name, PlanId: "plan/console", DefaultTimeoutSeconds: 60, CheckedProvider: "fake"})
	f.DoAs(by, &internalv1.OpenConsole{SessionId: "con-" + o.name, RunId: "run-console-" + o.name, Record: true})
	f.DoAs("system", &internalv1.RecordConsole{SessionId: "con-" + o.name,
		Output: []*holdfastv1.ConsoleOutput{{Data: []byte("console of " + o.name)}}})
	f.DoAs("system", &internalv1.NoteSessions{Sessions: []*holdfastv1.Session{{SessionId: "oidc-" + o.name,
		Principal: "user:" + o.name, Kind: "dashboard",
		ExpiresAt: timestamppb.New(time.Date(2026, 1, 29, 18, 0, 0, 0, time.UTC))}}})
	f.DoAs(by, &internalv1.StartWave{MachineIds: []string{o.agent()}, Wave: &holdfastv1.Wave{WaveId: o.wave(),
		PlanId: "one", MaxParallel: 1, Filter: "labels.team=" + o.name}})
}

// fail makes a run of a machine that failed with an error and a log.
func (f *fleet) fail(by, machine, run string, o tenant) {
	f.Helper()
	f.DoAs(by, &internalv1.StartRun{RunId: run, MachineId: machine, RequestId: "req-" + run, PlanId: "one",
		DefaultTimeoutSeconds: 60, CheckedProvider: "fake"})
	f.DoAs("system", &internalv1.BeginAttempt{RunId: run, Step: "ssh", Attempt: 1})
	f.DoAs("system", &internalv1.AppendRunLogs{Appends: []*internalv1.LogAppend{{RunId: run,
		Chunks: []*holdfastv1.LogChunk{{Stream: "stdout", Data: []byte("log of " + o.name)}}}}})
	f.DoAs("system", &internalv1.EndAttempt{RunId: run, Step: "ssh", Attempt: 1, Outcome: holdfastv1.Attempt_FAILED,
		Error: "dial bmc." + o.name + ".example", ErrorClass: "transient", Permanent: true})
}

func make32(text string) []byte { return append([]byte(text), make([]byte, 32-len(text))...) }
