package route

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/holdfast-metal/holdfast/cluster/call"
	"github.com/holdfast-metal/holdfast/cluster/internal/read"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestRoutes(t *testing.T) {
	var r methods
	for _, tc := range []struct {
		method string
		want   string
	}{
		{"/holdfast.v1.MachineService/GetMachine", "read"},
		{"/holdfast.v1.MachineService/RegisterMachine", "write"},
		{"/holdfast.v1.RunService/StartRun", "write"},
		{"/holdfast.v1.RunService/WatchRuns", "read"},
		{"/holdfast.v1.ClusterService/GetClusterStatus", "local"},
		{"/holdfast.internal.v1.PeerService/Leave", "none"},
		{"/holdfast.internal.v1.PeerService/Confirm", "none"},
		{"/grpc.health.v1.Health/Check", "none"},
		{"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "none"},
		{"/holdfast.v1.MachineService/NoSuchMethod", "none"},
		{"/no.such.Service/Method", "none"},
		{"nonsense", "none"},
	} {
		for range 2 { // found, and cached
			got := "none"
			if rt := r.get(tc.method); rt != nil {
				switch {
				case rt.local:
					got = "local"
				case rt.read:
					got = "read"
				default:
					got = "write"
				}
			}
			if got != tc.want {
				t.Errorf("%s: got %s, want %s", tc.method, got, tc.want)
			}
		}
	}
	start := r.get("/holdfast.v1.RunService/StartRun")
	if !start.replayable(&holdfastv1.StartRunRequest{RequestId: "x"}) {
		t.Error("request with a request id: got not replayable")
	}
	if start.replayable(&holdfastv1.StartRunRequest{}) {
		t.Error("request without a request id: got replayable")
	}
	if r.get("/holdfast.v1.MachineService/DeleteMachine").replayable(&holdfastv1.DeleteMachineRequest{MachineId: "m"}) {
		t.Error("request type without a request id: got replayable")
	}
}

func TestConsistencyOf(t *testing.T) {
	for _, tc := range []struct {
		md   metadata.MD
		want call.Consistency
		bad  bool
	}{
		{nil, call.Consistency{}, false},
		{metadata.Pairs(call.HeaderConsistency, "stale"), call.Consistency{Stale: true}, false},
		{metadata.Pairs(call.HeaderConsistency, "linearizable", call.HeaderMinIndex, "7"),
			call.Consistency{MinIndex: 7}, false},
		{metadata.Pairs(call.HeaderConsistency, "stale", call.HeaderMinIndex, "7", call.HeaderMinIndex, "5"),
			call.Consistency{Stale: true, MinIndex: 7}, false},
		{metadata.Pairs(call.HeaderConsistency, "eventual"), call.Consistency{}, true},
		{metadata.Pairs(call.HeaderMinIndex, "-1"), call.Consistency{}, true},
		{metadata.Pairs(call.HeaderMinIndex, "18446744073709551615"), call.Consistency{}, true},
	} {
		got, err := consistencyOf(metadata.NewIncomingContext(t.Context(), tc.md))
		if (err != nil) != tc.bad || err == nil && got != tc.want {
			t.Errorf("%v: got %v (%v), want %v, error: %t", tc.md, got, err, tc.want, tc.bad)
		}
	}
	if got := call.ConsistencyFrom(call.WithConsistency(t.Context(), call.Consistency{MinIndex: 3})); got.MinIndex != 3 {
		t.Errorf("consistency in a context: got %v", got)
	}
}

func TestInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tc := range []struct{ caller, want time.Duration }{
			{0, read.CallTimeout}, {time.Minute, time.Minute - answerMargin}, {100 * time.Millisecond, 75 * time.Millisecond},
		} {
			ctx, cancel := t.Context(), context.CancelFunc(func() {})
			if tc.caller > 0 {
				ctx, cancel = context.WithTimeout(ctx, tc.caller)
			}
			in, stop := inTime(ctx)
			deadline, _ := in.Deadline()
			if got := time.Until(deadline); got != tc.want {
				t.Errorf("caller deadline %v: got %v, want %v", tc.caller, got, tc.want)
			}
			stop()
			cancel()
		}
	})
}
