package clitest

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Cluster is a peer with some machines, plans and runs. It records requests.
type Cluster struct {
	holdfastv1.UnimplementedMachineServiceServer
	holdfastv1.UnimplementedPlanServiceServer
	holdfastv1.UnimplementedRunServiceServer
	holdfastv1.UnimplementedClusterServiceServer
	holdfastv1.UnimplementedAccessServiceServer
	holdfastv1.UnimplementedAuditServiceServer
	holdfastv1.UnimplementedSecretServiceServer
	holdfastv1.UnimplementedImageServiceServer
	holdfastv1.UnimplementedInstallServiceServer
	holdfastv1.UnimplementedAgentServiceServer
	holdfastv1.UnimplementedNodeServiceServer
	holdfastv1.UnimplementedPoolServiceServer
	holdfastv1.UnimplementedRegistryServiceServer

	Addr     string
	Machines []*holdfastv1.Machine
	Plans    []*holdfastv1.Plan
	Runs     []*holdfastv1.Run
	Stalled  []*holdfastv1.Machine // nil: a node
	History  []*holdfastv1.HistoryEntry
	Why      *holdfastv1.MachineExplanation
	Cluster  *holdfastv1.ClusterStatus
	Elects   atomic.Int64 // this number of status reads shows no leader
	Tokens   []*holdfastv1.Token
	Trail    []*holdfastv1.AuditEvent
	Pools    []*holdfastv1.Pool
	Services []*holdfastv1.Service
	Log      string
	Issuers  []*holdfastv1.Issuer
	Debugs   int       // calls of CollectDebug
	Operator *Operator // nil for none
	Waves    *Waves    // nil for none

	// Refuse answers a request with an error, if it returns one.
	Refuse func(req proto.Message) error
	// Events are sent by a watch; Open keeps the stream open after them.
	Events []*holdfastv1.RunEvent
	Open   bool
	// Endless means that with Open, logs and runs do not end either.
	Endless bool
	// Install answers GetInstall, if it is set. It gets the number of the request, from 1.
	Install func(asked int) *holdfastv1.Install

	Mu       sync.Mutex
	Requests []proto.Message
	Meta     metadata.MD
	Watching chan struct{} // closed when a stream has sent all events
	watched  sync.Once
}

// Start serves a cluster until the test ends.
func Start(t *testing.T, f *Cluster) *Cluster {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.Addr = lis.Addr().String()
	f.Watching = make(chan struct{})
	s := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo,
		next grpc.UnaryHandler) (any, error) {
		if err := f.take(ctx, req.(proto.Message)); err != nil {
			return nil, err
		}
		return next(ctx, req)
	}))
	holdfastv1.RegisterMachineServiceServer(s, f)
	holdfastv1.RegisterPlanServiceServer(s, f)
	holdfastv1.RegisterRunServiceServer(s, f)
	holdfastv1.RegisterClusterServiceServer(s, f)
	holdfastv1.RegisterAccessServiceServer(s, f)
	holdfastv1.RegisterAuditServiceServer(s, f)
	holdfastv1.RegisterSecretServiceServer(s, f)
	holdfastv1.RegisterImageServiceServer(s, f)
	holdfastv1.RegisterInstallServiceServer(s, f)
	holdfastv1.RegisterAgentServiceServer(s, f)
	holdfastv1.RegisterNodeServiceServer(s, f)
	holdfastv1.RegisterPoolServiceServer(s, f)
	holdfastv1.RegisterRegistryServiceServer(s, f)
	if f.Waves != nil {
		holdfastv1.RegisterWaveServiceServer(s, f.Waves)
	}
	if f.Operator != nil {
		holdfastv1.RegisterOperatorServiceServer(s, f.Operator)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(lis)
	}()
	t.Cleanup(func() {
		s.Stop()
		<-done
	})
	return f
}

func (f *Cluster) take(ctx context.Context, req proto.Message) error {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	f.Requests = append(f.Requests, proto.Clone(req))
	f.Meta, _ = metadata.FromIncomingContext(ctx)
	if f.Refuse != nil {
		return f.Refuse(req)
	}
	return nil
}

// Asked returns the requests of one type, in order.
func Asked[M proto.Message](f *Cluster) []M {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	var out []M
	for _, r := range f.Requests {
		if m, ok := r.(M); ok {
			out = append(out, m)
		}
	}
	return out
}

// page returns a page of a list. A token is the name of the element before the page.
func page[M any](items []M, name func(M) string, size int32, token string) ([]M, string) {
	start := 0
	if token != "" {
		start = 1 + slices.IndexFunc(items, func(m M) bool { return name(m) == token })
	}
	items = items[start:]
	if n := int(size); n > 0 && len(items) > n {
		return items[:n], name(items[n-1])
	}
	return items, ""
}

func (f *Cluster) ListMachines(
	_ context.Context, r *holdfastv1.ListMachinesRequest,
) (*holdfastv1.ListMachinesResponse, error) {
	machines := f.Machines
	if pool, ok := strings.CutPrefix(r.GetFilter(), `pool = "`); ok {
		machines = slices.DeleteFunc(slices.Clone(machines),
			func(m *holdfastv1.Machine) bool { return m.GetSpec().GetPool()+`"` != pool })
	}
	items, next := page(machines, (*holdfastv1.Machine).GetMachineId, r.GetPageSize(), r.GetPageToken())
	return &holdfastv1.ListMachinesResponse{Machines: items, NextPageToken: next}, nil
}

func (f *Cluster) GetMachine(_ context.Context, r *holdfastv1.GetMachineRequest) (*holdfastv1.Machine, error) {
	for _, m := range f.Machines {
		if m.GetMachineId() == r.GetMachineId() {
			return m, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "machine %q not found", r.GetMachineId())
}

func (f *Cluster) RegisterMachine(
	_ context.Context, r *holdfastv1.RegisterMachineRequest,
) (*holdfastv1.Machine, error) {
	m := proto.CloneOf(r.GetMachine())
	m.Status = &holdfastv1.MachineStatus{Phase: holdfastv1.MachineStatus_READY,
		EffectiveState: holdfastv1.EffectiveState_READY}
	return m, nil
}

func (f *Cluster) UpdateMachine(
	_ context.Context, r *holdfastv1.UpdateMachineRequest,
) (*holdfastv1.Machine, error) {
	return r.GetMachine(), nil
}

func (f *Cluster) SetMachinePhase(
	_ context.Context, r *holdfastv1.SetMachinePhaseRequest,
) (*holdfastv1.Machine, error) {
	return &holdfastv1.Machine{MachineId: r.GetMachineId(), Status: &holdfastv1.MachineStatus{Phase: r.GetPhase()}}, nil
}

func (f *Cluster) RetryBmc(_ context.Context, r *holdfastv1.RetryBmcRequest) (*holdfastv1.Machine, error) {
	return &holdfastv1.Machine{MachineId: r.GetMachineId()}, nil
}

func (f *Cluster) DeleteMachine(
	context.Context, *holdfastv1.DeleteMachineRequest,
) (*holdfastv1.DeleteMachineResponse, error) {
	return &holdfastv1.DeleteMachineResponse{}, nil
}

func (f *Cluster) ListMachineHistory(
	_ context.Context, r *holdfastv1.ListMachineHistoryRequest,
) (*holdfastv1.ListMachineHistoryResponse, error) {
	items, next := page(f.History, func(e *holdfastv1.HistoryEntry) string { return app.Number(e.GetSequence()) },
		r.GetPageSize(), r.GetPageToken())
	return &holdfastv1.ListMachineHistoryResponse{Entries: items, NextPageToken: next}, nil
}

func (f *Cluster) ExplainMachine(
	context.Context, *holdfastv1.ExplainMachineRequest,
) (*holdfastv1.MachineExplanation, error) {
	return f.Why, nil
}

func (f *Cluster) ListPlans(context.Context, *holdfastv1.ListPlansRequest) (*holdfastv1.ListPlansResponse, error) {
	return &holdfastv1.ListPlansResponse{Plans: f.Plans}, nil
}

func (f *Cluster) GetPlan(_ context.Context, r *holdfastv1.GetPlanRequest) (*holdfastv1.Plan, error) {
	for _, p := range f.Plans {
		if p.GetPlanId() == r.GetPlanId() {
			return p, nil
		}
	}
	for _, p := range fsm.DefaultPlans() {
		if p.GetPlanId() == r.GetPlanId() && strings.HasPrefix(p.GetPlanId(), "plan/power-") {
			return p, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "plan %q not found", r.GetPlanId())
}

func (f *Cluster) CreatePlan(_ context.Context, r *holdfastv1.CreatePlanRequest) (*holdfastv1.Plan, error) {
	return r.GetPlan(), nil
}

func (f *Cluster) DeletePlan(
	context.Context, *holdfastv1.DeletePlanRequest,
) (*holdfastv1.DeletePlanResponse, error) {
	return &holdfastv1.DeletePlanResponse{}, nil
}

func (f *Cluster) ReleasePlan(ctx context.Context, r *holdfastv1.ReleasePlanRequest) (*holdfastv1.Plan, error) {
	return f.GetPlan(ctx, &holdfastv1.GetPlanRequest{PlanId: r.GetPlanId()})
}

func (f *Cluster) StartRun(_ context.Context, r *holdfastv1.StartRunRequest) (*holdfastv1.Run, error) {
	return &holdfastv1.Run{RunId: f.Runs[0].GetRunId(), MachineId: r.GetMachineId(), RequestId: r.GetRequestId(),
		Type: strings.ToUpper(r.GetType()), PlanId: r.GetPlanId(), Params: r.GetParams(), Phase: holdfastv1.Run_PENDING}, nil
}

func (f *Cluster) GetRun(_ context.Context, r *holdfastv1.GetRunRequest) (*holdfastv1.Run, error) {
	for _, run := range f.Runs {
		if run.GetRunId() == r.GetRunId() {
			return run, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "run %q not found", r.GetRunId())
}

func (f *Cluster) ListRuns(_ context.Context, r *holdfastv1.ListRunsRequest) (*holdfastv1.ListRunsResponse, error) {
	runs := slices.DeleteFunc(slices.Clone(f.Runs),
		func(run *holdfastv1.Run) bool { return !runMatches(r.GetFilter(), run) })
	items, next := page(runs, (*holdfastv1.Run).GetRunId, r.GetPageSize(), r.GetPageToken())
	return &holdfastv1.ListRunsResponse{Runs: items, NextPageToken: next}, nil
}

func (f *Cluster) CancelRun(ctx context.Context, r *holdfastv1.CancelRunRequest) (*holdfastv1.Run, error) {
	return f.GetRun(ctx, &holdfastv1.GetRunRequest{RunId: r.GetRunId()})
}

func (f *Cluster) WatchRuns(
	r *holdfastv1.WatchRunsRequest, s grpc.ServerStreamingServer[holdfastv1.RunEvent],
) error {
	if err := f.take(s.Context(), r); err != nil {
		return err
	}
	for _, e := range f.Events {
		if err := s.Send(e); err != nil {
			return err
		}
	}
	return f.rest(s.Context())
}

func (f *Cluster) StreamRunLogs(
	r *holdfastv1.StreamRunLogsRequest, s grpc.ServerStreamingServer[holdfastv1.LogChunk],
) error {
	if err := f.take(s.Context(), r); err != nil {
		return err
	}
	chunk := &holdfastv1.LogChunk{RunId: r.GetRunId(), Stream: "stdout", Step: "reboot", Attempt: 1,
		Offset: r.GetOffset(), Data: []byte(f.Log[r.GetOffset():])}
	if err := s.Send(chunk); err != nil {
		return err
	}
	if r.GetNoFollow() && !f.Endless {
		return nil
	}
	return f.rest(s.Context())
}

func (f *Cluster) GetClusterStatus(
	context.Context, *holdfastv1.GetClusterStatusRequest,
) (*holdfastv1.ClusterStatus, error) {
	if f.Elects.Add(-1) >= 0 {
		return &holdfastv1.ClusterStatus{AnsweredBy: f.Cluster.GetAnsweredBy()}, nil
	}
	return f.Cluster, nil
}

// rest ends a stream, or keeps it open until the client leaves.
func (f *Cluster) rest(ctx context.Context) error {
	if !f.Open {
		return nil
	}
	f.watched.Do(func() { close(f.Watching) }) // a client may open its stream again
	<-ctx.Done()
	return ctx.Err()
}

// Refusal returns an error of the server.
func Refusal(t *testing.T, code codes.Code, msg string, fields ...string) error {
	t.Helper()
	s := status.New(code, msg)
	if len(fields) > 0 {
		bad := &errdetails.BadRequest{}
		for i := 0; i+1 < len(fields); i += 2 {
			bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{Field: fields[i],
				Description: fields[i+1]})
		}
		var err error
		if s, err = s.WithDetails(bad); err != nil {
			t.Fatal(err)
		}
	}
	return s.Err()
}

// WithReason returns an error of a server.
func WithReason(t *testing.T, code codes.Code, msg, reason string) error {
	t.Helper()
	s, err := status.New(code, msg).WithDetails(&errdetails.ErrorInfo{Domain: client.ErrorDomain, Reason: reason})
	if err != nil {
		t.Fatal(err)
	}
	return s.Err()
}

// Always returns a function that refuses everything.
func Always(err error) func(proto.Message) error { return func(proto.Message) error { return err } }

// Now is the current time in all tests.
func Now() time.Time { return time.Date(2026, 1, 29, 15, 20, 0, 0, time.UTC) }

// runMatches evaluates the parts of filters that the command line adds.
func runMatches(filter string, r *holdfastv1.Run) bool {
	failed := client.Finished(r) && r.GetPhase() != holdfastv1.Run_SUCCEEDED
	switch {
	case strings.HasPrefix(filter, "request_id = "):
		return filter == "request_id = "+strconv.Quote(r.GetRequestId())
	case strings.HasPrefix(filter, `machine_id = "`):
		return filter == "machine_id = "+strconv.Quote(r.GetMachineId())
	case strings.HasSuffix(filter, ") AND (phase = FAILED OR phase = CANCELED)"):
		return failed
	case strings.HasSuffix(filter, ") AND (phase = PENDING OR phase = RUNNING)"):
		return !client.Finished(r)
	}
	return true
}
