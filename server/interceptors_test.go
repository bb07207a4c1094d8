package server

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
	"github.com/holdfast-metal/holdfast/server/internal/operator"
)

// forwarder is a Forwarder that sends no call to another peer.
type forwarder struct{ Forwarder }

func (forwarder) InterceptUnary(
	ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler,
) (any, error) {
	return next(ctx, req)
}

// TestForwarderBounds checks which calls without a deadline get none here because the Forwarder
// sets it.
func TestForwarderBounds(t *testing.T) {
	s := New(Config{Forwarder: forwarder{}}, nodetest.New(), nodetest.New().Peer, testProviders())
	for method, want := range map[string]bool{
		holdfastv1.RunService_StartRun_FullMethodName:             false,
		holdfastv1.OperatorService_RestoreSnapshot_FullMethodName: true, // which takes longer
		"/grpc.health.v1.Health/Check":                            true, // which it does not handle
	} {
		_, err := s.serveUnary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: method},
			func(ctx context.Context, _ any) (any, error) {
				if _, got := ctx.Deadline(); got != want {
					t.Errorf("%s: got a deadline: %v, want %v", method, got, want)
				}
				return nil, nil
			})
		if err != nil {
			t.Error(err)
		}
	}
}

// TestRestoreHasTime checks that a restore may take longer than other calls, even if a
// peer forwards it and the caller has set no deadline.
func TestRestoreHasTime(t *testing.T) {
	s := New(Config{CallTimeout: time.Minute}, nodetest.New(), nodetest.New().Peer, testProviders())
	soon, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, tt := range []struct {
		name, method string
		ctx          context.Context
		least, most  time.Duration
	}{
		{"another call", holdfastv1.OperatorService_Probe_FullMethodName, context.Background(), 0, time.Minute},
		{"a restore", holdfastv1.OperatorService_RestoreSnapshot_FullMethodName, context.Background(), 20 * time.Minute,
			operator.RestoreCallTimeout},
		{"a restore whose caller waits a second", holdfastv1.OperatorService_RestoreSnapshot_FullMethodName, soon, 0,
			time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := s.serveUnary(tt.ctx, nil, &grpc.UnaryServerInfo{FullMethod: tt.method},
				func(ctx context.Context, _ any) (any, error) {
					deadline, ok := ctx.Deadline()
					if left := time.Until(deadline); !ok || left > tt.most || left < tt.least {
						t.Errorf("got %v left (a deadline: %v), want %v to %v", left, ok, tt.least, tt.most)
					}
					return nil, nil
				})
			if err != nil {
				t.Error(err)
			}
		})
	}
}
