package inproc_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/inproc"
)

type key struct{}

// machines answers with the request and records how it was called.
type machines struct {
	holdfastv1.UnimplementedMachineServiceServer
	md       metadata.MD
	value    any
	deadline bool
}

func (m *machines) GetMachine(ctx context.Context, r *holdfastv1.GetMachineRequest) (*holdfastv1.Machine, error) {
	m.md, _ = metadata.FromIncomingContext(ctx)
	m.value = ctx.Value(key{})
	_, m.deadline = ctx.Deadline()
	if r.GetMachineId() == "" {
		return nil, status.Error(codes.NotFound, "no machine")
	}
	if err := grpc.SetHeader(ctx, metadata.Pairs("holdfast-index", "7")); err != nil {
		return nil, err
	}
	if err := grpc.SetTrailer(ctx, metadata.Pairs("t", "1")); err != nil {
		return nil, err
	}
	method, _ := grpc.Method(ctx)
	return &holdfastv1.Machine{MachineId: r.GetMachineId(), Labels: map[string]string{"method": method},
		Spec: &holdfastv1.MachineSpec{Pool: "a"}}, nil
}

func TestInvoke(t *testing.T) {
	var intercepted []string
	s, impl := inproc.New(
		func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			intercepted = append(intercepted, info.FullMethod)
			return next(ctx, req)
		}, nil), &machines{}
	holdfastv1.RegisterMachineServiceServer(s, impl)
	c := holdfastv1.NewMachineServiceClient(s)

	ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "alice"), time.Minute)
	defer cancel()
	// Incoming metadata is not forwarded, because the context of an HTTP request may
	// contain anything.
	ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("holdfast-identity-bin", "forged"))
	ctx = metadata.AppendToOutgoingContext(ctx, "holdfast-consistency", "stale")
	var header, trailer metadata.MD
	got, err := c.GetMachine(ctx, &holdfastv1.GetMachineRequest{MachineId: "m-1"}, grpc.Header(&header),
		grpc.Trailer(&trailer))
	if err != nil {
		t.Fatal(err)
	}
	want := &holdfastv1.Machine{MachineId: "m-1",
		Labels: map[string]string{"method": "/holdfast.v1.MachineService/GetMachine"},
		Spec:   &holdfastv1.MachineSpec{Pool: "a"}}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"/holdfast.v1.MachineService/GetMachine"}, intercepted); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(metadata.Pairs("holdfast-consistency", "stale"), impl.md); diff != "" {
		t.Error(diff)
	}
	if impl.value != "alice" || !impl.deadline {
		t.Errorf("got value %v, deadline %v", impl.value, impl.deadline)
	}
	if header.Get("holdfast-index")[0] != "7" || trailer.Get("t")[0] != "1" {
		t.Errorf("got header %v, trailer %v", header, trailer)
	}
}

func TestErrors(t *testing.T) {
	s := inproc.New(nil, nil)
	c := holdfastv1.NewMachineServiceClient(s)
	if _, err := c.GetMachine(t.Context(), &holdfastv1.GetMachineRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("not registered: got %v", err)
	}
	holdfastv1.RegisterMachineServiceServer(s, &machines{})
	if _, err := c.GetMachine(t.Context(), &holdfastv1.GetMachineRequest{}); status.Code(err) != codes.NotFound {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.GetMachine(ctx, &holdfastv1.GetMachineRequest{MachineId: "m"}); status.Code(err) != codes.Canceled {
		t.Errorf("got %v", err)
	}
	if _, err := holdfastv1.NewRunServiceClient(s).WatchRuns(t.Context(),
		&holdfastv1.WatchRunsRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("stream: got %v", err)
	}
}

// BenchmarkInvoke measures the overhead of a call.
func BenchmarkInvoke(b *testing.B) {
	s := inproc.New(nil, nil)
	holdfastv1.RegisterMachineServiceServer(s, &machines{})
	c := holdfastv1.NewMachineServiceClient(s)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.GetMachine(b.Context(), &holdfastv1.GetMachineRequest{MachineId: "m-1"}); err != nil {
			b.Fatal(err)
		}
	}
}
