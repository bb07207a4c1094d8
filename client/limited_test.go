package client

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// TestLimitedCallsAreRetried checks that a refused call is retried after the delay that the peer
// requests, or not at all if that is too late.
func TestLimitedCallsAreRetried(t *testing.T) {
	for _, tt := range []struct {
		name      string
		wait      time.Duration
		want      codes.Code
		wantCalls int
	}{
		{"in time", 300 * time.Millisecond, codes.OK, 2},
		{"too late", time.Hour, codes.ResourceExhausted, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var at []time.Time // in order
			a := startPeer(t, &fakePeer{unary: func(_ context.Context, n int) error {
				at = append(at, time.Now())
				if n == 1 {
					return tooManyCalls(t, tt.wait)
				}
				return nil
			}})
			began := time.Now()
			err := remove(context.Background(), dial(t, Config{Addrs: []string{a.addr}, Timeout: 20 * time.Second}))
			if got := status.Code(err); got != tt.want || a.count() != tt.wantCalls {
				t.Errorf("got %v after %d calls, want %v after %d", err, a.count(), tt.want, tt.wantCalls)
			}
			var call *CallError
			if errors.As(err, &call) && call.OutcomeUnknown {
				t.Errorf("got %v, want an error that nothing was done", err)
			}
			if len(at) == 2 && at[1].Sub(at[0]) < tt.wait {
				t.Errorf("got a retry after %v, want at least %v", at[1].Sub(at[0]), tt.wait)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("got an error after %v, want no wait", took)
			}
		})
	}
}

// TestLimitedStreamIsReopened checks that a refused stream is opened again.
func TestLimitedStreamIsReopened(t *testing.T) {
	calls := 0
	a := startPeer(t, &fakePeer{logs: func(_ *holdfastv1.StreamRunLogsRequest,
		s grpc.ServerStreamingServer[holdfastv1.LogChunk]) error {
		if calls++; calls == 1 {
			return tooManyCalls(t, time.Millisecond)
		}
		return s.Send(&holdfastv1.LogChunk{Data: []byte("x")})
	}})
	got := ""
	err := dial(t, Config{Addrs: []string{a.addr}}).ReadLogs(testContext(t), "run-1", 0,
		func(c *holdfastv1.LogChunk) error {
			got += string(c.GetData())
			return nil
		})
	if err != nil || got != "x" {
		t.Errorf("got %q, %v, want the log", got, err)
	}
}

func probe(ctx context.Context, c *Client) error {
	_, err := c.Plans().ProbePlan(ctx, &holdfastv1.ProbePlanRequest{MachineId: "m-1", PlanId: "plan/x"})
	return err
}

// TestProbeHasTime checks that a probe, which waits for hardware, is not repeated at another peer.
func TestProbeHasTime(t *testing.T) {
	for _, tt := range []struct {
		name        string
		call        func(context.Context, *Client) error
		least, most time.Duration
	}{
		{"a probe", probe, 25 * time.Second, DefaultTimeout},
		{"another idempotent write", register1, 0, defaultTryTimeout},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var left time.Duration
			a := startPeer(t, &fakePeer{unary: func(ctx context.Context, _ int) error {
				end, _ := ctx.Deadline()
				left = time.Until(end)
				return nil
			}})
			if err := tt.call(context.Background(), dial(t, Config{Addrs: []string{a.addr, refusedAddr(t)}})); err != nil {
				t.Fatal(err)
			}
			if left < tt.least || left > tt.most {
				t.Errorf("time of the try: got %v, want %v to %v", left, tt.least, tt.most)
			}
		})
	}
}

// TestReadHasNoUnknownOutcome also covers reads that only the leader answers.
func TestReadHasNoUnknownOutcome(t *testing.T) {
	for _, tt := range []struct {
		name string
		call func(context.Context, *Client) error
		want bool // the outcome is unknown
	}{
		{"a read", get, false},
		{"a probe", probe, false},
		{"a write", remove, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := startPeer(t, &fakePeer{unary: hang})
			err := tt.call(context.Background(), dial(t, Config{Addrs: []string{a.addr}, Timeout: 300 * time.Millisecond}))
			var call *CallError
			if !errors.As(err, &call) || call.OutcomeUnknown != tt.want {
				t.Errorf("got %v, want an unknown outcome: %v", err, tt.want)
			}
		})
	}
}
