package server

import (
	"context"
	"math"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/auth"
)

// TestNumbersAreFinite: what JSON cannot say comes into the state on no way, or the lists that it is in could not be answered.
func TestNumbersAreFinite(t *testing.T) {
	n := newNode()
	n.machine(t, "m-1")
	s, c := serve(t, n, Config{Leases: oddLeases{}})
	beats, pools := holdfastv1.NewHeartbeatServiceClient(c.conn), holdfastv1.NewPoolServiceClient(c.conn)
	root := &holdfastv1.Identity{Principal: "user:root", Role: holdfastv1.Role_ADMIN, Method: auth.MethodCertificate}
	direct, as := s.Heartbeats(), func(ctx context.Context) context.Context {
		return auth.NewContext(ctx, &auth.Caller{Identity: root, Source: "10.0.0.1", Peer: "p1", Method: "POST /x"})
	}
	inf, nan := math.Inf(1), math.NaN()
	for want, call := range map[string]func(context.Context) error{
		"metrics.cpu_utilization_pct: is NaN": func(ctx context.Context) error {
			_, err := beats.KeepMachineAlive(ctx, &holdfastv1.KeepMachineAliveRequest{MachineId: "m-1", Metrics: &holdfastv1.AgentMetrics{CpuUtilizationPct: nan}})
			return err
		},
		"metrics.memory_utilization_pct: is -Inf": func(ctx context.Context) error {
			_, err := direct.KeepMachineAlive(as(ctx), &holdfastv1.KeepMachineAliveRequest{MachineId: "m-1", Metrics: &holdfastv1.AgentMetrics{MemoryUtilizationPct: -inf}})
			return err
		},
		"gpus[1].temperature_celsius: is +Inf": func(ctx context.Context) error {
			_, err := beats.HeartbeatPool(ctx, &holdfastv1.HeartbeatPoolRequest{PoolId: "p-1", Gpus: []*holdfastv1.Gpu{{}, {Id: 1, TemperatureCelsius: inf}}})
			return err
		},
		"gpus[0].available_vram_gb: is NaN": func(ctx context.Context) error {
			_, err := direct.HeartbeatPool(as(ctx), &holdfastv1.HeartbeatPoolRequest{PoolId: "p-1", Gpus: []*holdfastv1.Gpu{{AvailableVramGb: nan}}})
			return err
		},
		"pool.gpus[0].temperature_celsius: is NaN": func(ctx context.Context) error {
			_, err := pools.RegisterPool(ctx, &holdfastv1.RegisterPoolRequest{Pool: &holdfastv1.Pool{PoolId: "p-1", Gpus: []*holdfastv1.Gpu{{TemperatureCelsius: nan}}}})
			return err
		},
		"provider.price_per_hour: is +Inf": func(ctx context.Context) error {
			_, err := pools.RegisterProvider(ctx, &holdfastv1.RegisterProviderRequest{Provider: &holdfastv1.PlatformProvider{ProviderId: "x", PricePerHour: inf}})
			return err
		},
	} {
		err := call(testCtx(t))
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), want+": want a finite number") {
			t.Errorf("got %v, want that %s", err, want)
		}
	}
	if _, err := beats.KeepMachineAlive(testCtx(t), &holdfastv1.KeepMachineAliveRequest{MachineId: "m-1"}); err != nil {
		t.Errorf("without metrics: %v", err)
	}
}
