package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
)

// fakeNode is a cluster of one with a real state but without consensus.
type fakeNode struct {
	peer *peer

	mu     sync.Mutex
	leader string
	votes  error
	// before is called for each command passed to Apply. If it returns an error, Apply
	// returns it.
	before func(*internalv1.Command) error
	viewed func(context.Context) error
}

func newNode() *fakeNode { return &fakeNode{peer: newPeer(), leader: "p1"} }

func (n *fakeNode) Apply(_ context.Context, c *internalv1.Command) (fsm.Result, error) {
	n.mu.Lock()
	before := n.before
	n.mu.Unlock()
	if before != nil {
		if err := before(c); err != nil {
			return fsm.Result{}, err
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	results := n.peer.Propose(proto.CloneOf(c))
	if len(results) == 0 {
		return fsm.Result{}, errors.New("the state has halted")
	}
	if results[0].Err != nil {
		return results[0], results[0].Err
	}
	return results[0], nil
}

func (n *fakeNode) View(ctx context.Context) (*fsm.View, error) {
	n.mu.Lock()
	viewed := n.viewed
	n.mu.Unlock()
	if viewed != nil {
		if err := viewed(ctx); err != nil {
			return nil, err
		}
	}
	return n.peer.View(), nil
}

func (n *fakeNode) Leader() (id string, self, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.leader, n.leader == "p1", n.leader != ""
}

func (n *fakeNode) setLeader(id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.leader = id
}

func (n *fakeNode) Role() string {
	if _, self, ok := n.Leader(); !ok {
		return "candidate"
	} else if !self {
		return "follower"
	}
	return "leader"
}

func (n *fakeNode) Votes() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.votes
}

func (n *fakeNode) Status(context.Context) *holdfastv1.ClusterStatus {
	leader, _, _ := n.Leader()
	return &holdfastv1.ClusterStatus{ClusterId: "c-1", Leader: leader, AnsweredBy: "p1"}
}

// do applies an operation that must be accepted.
func (n *fakeNode) do(t testing.TB, op proto.Message) proto.Message {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	res := n.peer.Do(op)
	if res.Err != nil {
		t.Fatalf("%T: %v", op, res.Err)
	}
	return res.Value
}

func (n *fakeNode) machine(t testing.TB, id string) {
	t.Helper()
	n.do(t, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: id, Spec: &holdfastv1.MachineSpec{}}})
}

// start creates a PENDING run of one step "one", or of a built-in plan.
func (n *fakeNode) start(t testing.TB, machineID, runID, planID string) *holdfastv1.Run {
	t.Helper()
	if planID == "" {
		planID = "one"
		n.do(t, &internalv1.CreatePlan{Plan: onePlan("one")})
	}
	m, _ := n.peer.View().Machine(machineID)
	return n.do(t, &internalv1.StartRun{
		CheckedProvider: fsm.ProviderOf(m), RunId: runID, MachineId: machineID, RequestId: "req-" +
			runID, PlanId: planID, DefaultTimeoutSeconds: 60, DefaultMaxRetries: 2,
	}).(*holdfastv1.Run)
}

func (n *fakeNode) begin(t testing.TB, runID string, attempt int32) {
	t.Helper()
	run, _ := n.peer.View().Run(runID)
	n.do(t, &internalv1.BeginAttempt{RunId: runID, Step: run.GetCurrentStep(), Attempt: attempt, WaitingFor: "the host"})
}

func (n *fakeNode) end(t testing.TB, runID string, attempt int32, o holdfastv1.Attempt_Outcome) {
	t.Helper()
	run, _ := n.peer.View().Run(runID)
	end := &internalv1.EndAttempt{RunId: runID, Step: run.GetCurrentStep(), Attempt: attempt, Outcome: o}
	if o == holdfastv1.Attempt_FAILED {
		end.Error, end.ErrorClass, end.Permanent = "exit status 3", "transient", true
	}
	n.do(t, end)
}

// finish moves a PENDING run of one step to its end.
func (n *fakeNode) finish(t testing.TB, runID string, o holdfastv1.Attempt_Outcome) {
	t.Helper()
	n.begin(t, runID, 1)
	n.end(t, runID, 1, o)
}

func (n *fakeNode) log(t testing.TB, runID string, data string) {
	t.Helper()
	run, _ := n.peer.View().Run(runID)
	n.do(t, &internalv1.AppendRunLogs{Appends: []*internalv1.LogAppend{{
		RunId: runID, Offset: run.GetLogBytes(), Chunks: []*holdfastv1.LogChunk{{Stream: "stdout", Data: []byte(data)}},
	}}})
}

func onePlan(id string) *holdfastv1.Plan {
	ssh := &holdfastv1.Step_Ssh{Ssh: &holdfastv1.SshCommand{Command: "true"}}
	return &holdfastv1.Plan{PlanId: id, Steps: []*holdfastv1.Step{{Name: "one", Kind: ssh}}}
}

// able is a provider with every capability. Calls would panic, but there are none.
type able struct {
	providers.Inspector
	providers.PowerController
	providers.BootController
	providers.Imager
	providers.RemoteExecutor
	providers.ClusterJoiner
	providers.NetConfigurator
}

func (able) Kind() string { return "able" }

// powerOnly is a provider that can only switch power.
type powerOnly struct {
	providers.Inspector
	providers.PowerController
}

func (powerOnly) Kind() string { return "power-only" }

func testProviders() *providers.Set {
	return providers.SetOf(map[string]providers.Provider{"fake": able{}, "button": powerOnly{}})
}

// clients are stubs on a connection to a server.
type clients struct {
	holdfastv1.MachineServiceClient
	holdfastv1.PlanServiceClient
	holdfastv1.RunServiceClient
	holdfastv1.ClusterServiceClient
	conn *grpc.ClientConn
}

// serve starts a server over a node.
func serve(t *testing.T, n *fakeNode, cfg Config) (*Server, *clients) {
	t.Helper()
	s := New(cfg, n, n.peer, testProviders())
	g := grpc.NewServer(append(GRPCOptions(), grpc.ChainUnaryInterceptor(s.UnaryInterceptors()...),
		grpc.ChainStreamInterceptor(s.StreamInterceptors()...))...)
	s.Register(g)
	lis := bufconn.Listen(1 << 20)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = g.Serve(lis)
	}()
	conn, err := grpc.NewClient("passthrough:///bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		g.Stop()
		<-done
	})
	return s, &clients{
		holdfastv1.NewMachineServiceClient(conn), holdfastv1.NewPlanServiceClient(conn),
		holdfastv1.NewRunServiceClient(conn), holdfastv1.NewClusterServiceClient(conn), conn,
	}
}

func testCtx(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// eventually polls until a condition holds.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(15 * time.Second); !cond(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("gave up waiting until %s", what)
		}
	}
}

// detail returns the first detail of a type.
func detail[D any](err error) (d D) {
	for _, a := range status.Convert(err).Details() {
		if got, ok := a.(D); ok {
			return got
		}
	}
	return d
}

// wantError checks an error's code and reason.
func wantError(t testing.TB, err error, code codes.Code, reason string) {
	t.Helper()
	info := detail[*errdetails.ErrorInfo](err)
	if status.Code(err) != code || info.GetReason() != reason {
		t.Fatalf("got %v with reason %q (%v), want %v with %q", status.Code(err), info.GetReason(), err, code, reason)
	}
	if reason != "" && info.GetDomain() != "holdfast.dev" {
		t.Fatalf("got domain %q", info.GetDomain())
	}
}

// logBuffer collects log lines.
type logBuffer struct {
	mu   sync.Mutex
	text []byte
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = append(b.text, p...)
	return len(p), nil
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.text)
}

func (b *logBuffer) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// The peer and its state implement the interfaces of a Server.
var (
	_ Node  = (*cluster.Node)(nil)
	_ State = (*fsm.FSM)(nil)
)
