package server

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
)

// TestNumbersAreFinite checks that numbers are refused that JSON cannot represent,
// because lists that contain them could not be encoded.
func TestNumbersAreFinite(t *testing.T) {
	_, c := serve(t, nodetest.New(), Config{})
	pools := holdfastv1.NewPoolServiceClient(c.conn)
	for want, call := range map[string]func(context.Context) error{
		"pool.gpus[0].temperature_celsius: is NaN": func(ctx context.Context) error {
			_, err := pools.RegisterPool(ctx,
				&holdfastv1.RegisterPoolRequest{Pool: &holdfastv1.Pool{PoolId: "p-1",
					Gpus: []*holdfastv1.Gpu{{TemperatureCelsius: new(math.NaN())}}}})
			return err
		},
		"provider.price_per_hour: is +Inf": func(ctx context.Context) error {
			_, err := pools.RegisterProvider(ctx,
				&holdfastv1.RegisterProviderRequest{Provider: &holdfastv1.PlatformProvider{ProviderId: "x",
					PricePerHour: math.Inf(1)}})
			return err
		},
	} {
		err := call(testCtx(t))
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), want+": want a finite number") {
			t.Errorf("got %v, want that %s", err, want)
		}
	}
}

// heard keeps the last heartbeat.
type heard struct{ last *internalv1.Renewal }

func (h *heard) Renew(_ context.Context, r *internalv1.Renewal) (*internalv1.RenewalAnswer, error) {
	h.last = r
	return &internalv1.RenewalAnswer{Outcome: internalv1.RenewalAnswer_RENEWED}, nil
}

// TestHeartbeatsAreFinite checks that a broken sensor does not cost a heartbeat, over
// gRPC and over HTTP.
func TestHeartbeatsAreFinite(t *testing.T) {
	n, leases := nodetest.New(), &heard{}
	n.Machine(t, "m-1")
	s, c := serve(t, n, Config{Leases: leases})
	rpc, direct := holdfastv1.NewHeartbeatServiceClient(c.conn), s.Heartbeats()
	as := auth.NewContext(testCtx(t),
		&auth.Caller{Identity: &holdfastv1.Identity{Principal: "user:root", Role: holdfastv1.Role_ADMIN,
			Method: auth.MethodCertificate}, Source: "10.0.0.1", Peer: "p1", Method: "POST /x"})
	alive := func() *holdfastv1.KeepMachineAliveRequest {
		return &holdfastv1.KeepMachineAliveRequest{MachineId: "m-1",
			Metrics: &holdfastv1.AgentMetrics{CpuUtilizationPct: math.NaN(), MemoryUtilizationPct: 7}}
	}
	pool := func() *holdfastv1.HeartbeatPoolRequest {
		return &holdfastv1.HeartbeatPoolRequest{PoolId: "p-1",
			Gpus: []*holdfastv1.Gpu{{TotalVramGb: proto.Float64(80), AvailableVramGb: proto.Float64(8),
				TemperatureCelsius: new(math.Inf(1))}}}
	}
	for name, call := range map[string]func() error{
		"keepalive by gRPC": func() error { _, err := rpc.KeepMachineAlive(testCtx(t), alive()); return err },
		"keepalive by HTTP": func() error { _, err := direct.KeepMachineAlive(as, alive()); return err },
		"heartbeat by gRPC": func() error { _, err := rpc.HeartbeatPool(testCtx(t), pool()); return err },
		"heartbeat by HTTP": func() error { _, err := direct.HeartbeatPool(as, pool()); return err },
	} {
		if err := call(); err != nil {
			t.Errorf("%s: got error %v, want none", name, err)
			continue
		}
		said, err := protojson.Marshal(leases.last)
		if text := string(said); err != nil || strings.Contains(text, "NaN") || strings.Contains(text, "Infinity") ||
			!strings.Contains(text, "7") && !strings.Contains(text, "80") {
			t.Errorf("%s: heard %s, %v", name, text, err)
		}
	}
}

// TestImpossibleHeartbeats checks that an impossible memory size is refused with its
// field, and that nothing reaches the leader.
func TestImpossibleHeartbeats(t *testing.T) {
	n, leases := nodetest.New(), &heard{}
	_, c := serve(t, n, Config{Leases: leases})
	rpc := holdfastv1.NewHeartbeatServiceClient(c.conn)
	for want, g := range map[string]*holdfastv1.Gpu{
		"gpus[0].total_vram_gb: is NaN":      {TotalVramGb: new(math.NaN())},
		"gpus[0].available_vram_gb: is -Inf": {TotalVramGb: proto.Float64(80), AvailableVramGb: new(math.Inf(-1))},
		"gpus[0]: VRAM":                      {TotalVramGb: proto.Float64(80), AvailableVramGb: proto.Float64(-1)},
		"gpus[0].available_vram_gb: is 81":   {TotalVramGb: proto.Float64(80), AvailableVramGb: proto.Float64(81)},
	} {
		_, err := rpc.HeartbeatPool(testCtx(t), &holdfastv1.HeartbeatPoolRequest{PoolId: "p-1", Gpus: []*holdfastv1.Gpu{g}})
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want that %s", err, want)
		}
	}
	if leases.last != nil {
		t.Errorf("the leader heard %v, want nothing", leases.last)
	}
}

// TestImpossibleTemperatures checks that a broken thermometer costs its reading, and no heartbeat.
func TestImpossibleTemperatures(t *testing.T) {
	n, leases := nodetest.New(), &heard{}
	_, c := serve(t, n, Config{Leases: leases})
	rpc := holdfastv1.NewHeartbeatServiceClient(c.conn)
	for _, tt := range []struct {
		celsius float64
		known   bool
	}{
		{65, true}, {-40, true}, {0, true}, {-400, false}, {1e9, false}, {math.Inf(1), false}, {math.NaN(), false},
	} {
		_, err := rpc.HeartbeatPool(testCtx(t), &holdfastv1.HeartbeatPoolRequest{PoolId: "p-1",
			Gpus: []*holdfastv1.Gpu{{TotalVramGb: proto.Float64(80), TemperatureCelsius: new(tt.celsius)}}})
		said, jsonErr := protojson.Marshal(leases.last)
		if err != nil || jsonErr != nil || strings.Contains(string(said), "temperatureCelsius") != tt.known {
			t.Errorf("%v C: heard %s, %v; want the temperature: %v", tt.celsius, said, errors.Join(err, jsonErr), tt.known)
		}
	}
}
