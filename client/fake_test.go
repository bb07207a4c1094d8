package client

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// fakePeer is a gRPC server on loopback that answers as the test specifies.
type fakePeer struct {
	holdfastv1.UnimplementedMachineServiceServer
	holdfastv1.UnimplementedRunServiceServer
	holdfastv1.UnimplementedAuditServiceServer
	holdfastv1.UnimplementedRegistryServiceServer
	holdfastv1.UnimplementedPlanServiceServer

	addr    string
	server  *grpc.Server
	options []grpc.ServerOption

	// unary answers each unary call. It gets the number of the call, from 1.
	unary func(ctx context.Context, n int) error
	// health answers health checks, which do not count as calls. If nil, the peer does not support
	// them.
	health  func(ctx context.Context, n int) error
	serving healthv1.HealthCheckResponse_ServingStatus // in the answers of health
	watch   func(*holdfastv1.WatchRunsRequest, grpc.ServerStreamingServer[holdfastv1.RunEvent]) error
	// services answers watches of services.
	services func(*holdfastv1.WatchServicesRequest, grpc.ServerStreamingServer[holdfastv1.ServiceEvent]) error
	logs     func(*holdfastv1.StreamRunLogsRequest, grpc.ServerStreamingServer[holdfastv1.LogChunk]) error
	run      *holdfastv1.Run
	audit    func(*holdfastv1.ExportAuditEventsRequest, grpc.ServerStreamingServer[holdfastv1.AuditEvent]) error

	mu    sync.Mutex
	calls int
	meta  []metadata.MD
}

func startPeer(t *testing.T, p *fakePeer) *fakePeer {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.addr = lis.Addr().String()
	p.server = grpc.NewServer(append(p.options, grpc.UnaryInterceptor(p.intercept))...)
	holdfastv1.RegisterMachineServiceServer(p.server, p)
	holdfastv1.RegisterRunServiceServer(p.server, p)
	holdfastv1.RegisterAuditServiceServer(p.server, p)
	holdfastv1.RegisterRegistryServiceServer(p.server, p)
	holdfastv1.RegisterPlanServiceServer(p.server, p)
	if p.health != nil {
		healthv1.RegisterHealthServer(p.server, &healthv1.UnimplementedHealthServer{})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = p.server.Serve(lis)
	}()
	t.Cleanup(func() {
		p.server.Stop()
		<-done
	})
	return p
}

// WatchServices serves one stream.
func (p *fakePeer) WatchServices(
	r *holdfastv1.WatchServicesRequest, s grpc.ServerStreamingServer[holdfastv1.ServiceEvent],
) error {
	return p.services(r, s)
}

func (p *fakePeer) intercept(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler,
) (any, error) {
	if info.FullMethod == healthv1.Health_Check_FullMethodName {
		return &healthv1.HealthCheckResponse{Status: p.serving}, p.health(ctx, 0)
	}
	md, _ := metadata.FromIncomingContext(ctx)
	p.mu.Lock()
	p.calls++
	n := p.calls
	p.meta = append(p.meta, md)
	p.mu.Unlock()
	if p.unary != nil {
		if err := p.unary(ctx, n); err != nil {
			return nil, err
		}
	}
	return next(ctx, req)
}

func (p *fakePeer) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls
}

func (p *fakePeer) lastMeta(key string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.meta[len(p.meta)-1].Get(key)
}

func (p *fakePeer) GetMachine(_ context.Context, r *holdfastv1.GetMachineRequest) (*holdfastv1.Machine, error) {
	return &holdfastv1.Machine{MachineId: r.GetMachineId()}, nil
}

func (p *fakePeer) RegisterMachine(
	_ context.Context, r *holdfastv1.RegisterMachineRequest,
) (*holdfastv1.Machine, error) {
	return r.GetMachine(), nil
}

func (p *fakePeer) DeleteMachine(
	context.Context, *holdfastv1.DeleteMachineRequest,
) (*holdfastv1.DeleteMachineResponse, error) {
	return &holdfastv1.DeleteMachineResponse{}, nil
}

func (p *fakePeer) StartRun(_ context.Context, r *holdfastv1.StartRunRequest) (*holdfastv1.Run, error) {
	return &holdfastv1.Run{RunId: "run-00000001", RequestId: r.GetRequestId()}, nil
}

func (p *fakePeer) ProbePlan(context.Context, *holdfastv1.ProbePlanRequest) (*holdfastv1.ProbePlanResponse, error) {
	return &holdfastv1.ProbePlanResponse{}, nil
}

func (p *fakePeer) GetRun(context.Context, *holdfastv1.GetRunRequest) (*holdfastv1.Run, error) {
	if p.run == nil {
		return nil, status.Error(codes.NotFound, "run not found")
	}
	return p.run, nil
}

func (p *fakePeer) WatchRuns(r *holdfastv1.WatchRunsRequest, s grpc.ServerStreamingServer[holdfastv1.RunEvent]) error {
	return p.watch(r, s)
}

func (p *fakePeer) StreamRunLogs(
	r *holdfastv1.StreamRunLogsRequest, s grpc.ServerStreamingServer[holdfastv1.LogChunk],
) error {
	return p.logs(r, s)
}

func (p *fakePeer) ExportAuditEvents(
	r *holdfastv1.ExportAuditEventsRequest, s grpc.ServerStreamingServer[holdfastv1.AuditEvent],
) error {
	return p.audit(r, s)
}

// refusedAddr returns an address without a listener.
func refusedAddr(t *testing.T) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lis.Close() }()
	return lis.Addr().String()
}

func dial(t *testing.T, cfg Config) *Client {
	t.Helper()
	c, err := Dial(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// tooManyCalls returns the error of a peer with too many calls.
func tooManyCalls(t *testing.T, wait time.Duration) error {
	t.Helper()
	s, err := status.New(codes.ResourceExhausted, "more than 10 calls a second: slow down").
		WithDetails(&errdetails.ErrorInfo{Domain: ErrorDomain, Reason: ReasonRateLimit},
			&errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
	if err != nil {
		t.Fatal(err)
	}
	return s.Err()
}

// unavailable returns the error of a peer for an outcome class.
func unavailable(t *testing.T, reason string) error {
	t.Helper()
	s, err := status.New(codes.Unavailable, "peer says "+reason).
		WithDetails(&errdetails.ErrorInfo{Domain: ErrorDomain, Reason: reason})
	if err != nil {
		t.Fatal(err)
	}
	return s.Err()
}
