package cluster_test

import (
	"context"
	"strconv"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/holdfast-metal/holdfast/cluster/call"
	"github.com/holdfast-metal/holdfast/cluster/clustertest"
	"github.com/holdfast-metal/holdfast/internal/guard"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// answerStream keeps the headers of an answer.
type answerStream struct {
	grpc.ServerTransportStream
	header metadata.MD
}

// SetHeader implements grpc.ServerTransportStream.
func (s *answerStream) SetHeader(md metadata.MD) error {
	s.header = md
	return nil
}

// TestGuardIntercept limits the allocations of a command's way through the interceptor on the
// leader, and checks that the headers of its answer are current.
func TestGuardIntercept(t *testing.T) {
	c := clustertest.Start(t, clustertest.Options{Peers: 1})
	p := c.Leader()
	unary := p.Node.InterceptUnary
	info := &grpc.UnaryServerInfo{FullMethod: holdfastv1.MachineService_UpdateMachine_FullMethodName}
	var s answerStream
	ctx := grpc.NewContextWithServerTransportStream(metadata.NewIncomingContext(t.Context(), metadata.Pairs(
		":authority", "localhost", "content-type", "application/grpc", "user-agent", "grpc-go", "authorization", "Bearer x",
		"grpc-accept-encoding", "gzip")), &s)
	req := &holdfastv1.UpdateMachineRequest{}
	next := func(context.Context, any) (any, error) { return nil, nil }
	guard.Check(t, "edge.intercept.allocs", testing.AllocsPerRun(200, func() {
		if _, err := unary(ctx, req, info, next); err != nil {
			t.Fatal(err)
		}
	}))
	index := func() uint64 {
		i, err := strconv.ParseUint(s.header.Get(call.HeaderIndex)[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	before := index()
	if err := register(t.Context(), p, "m-1"); err != nil {
		t.Fatal(err)
	}
	if _, err := unary(ctx, req, info, next); err != nil {
		t.Fatal(err)
	}
	if got := index(); got <= before || got > p.FSM.Applied() {
		t.Errorf("index of an answer after a commit: got %d, want more than %d, at most %d", got, before, p.FSM.Applied())
	}
}
