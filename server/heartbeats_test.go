package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/holdfast-metal/holdfast/cluster/outcome"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
)

// oddLeases returns an answer that depends on the id of the lease.
type oddLeases struct{}

func (oddLeases) Renew(_ context.Context, r *internalv1.Renewal) (*internalv1.RenewalAnswer, error) {
	switch r.GetLease().GetId() {
	case "gone":
		return &internalv1.RenewalAnswer{Outcome: internalv1.RenewalAnswer_UNKNOWN_LEASE}, nil
	case "over":
		return &internalv1.RenewalAnswer{Outcome: internalv1.RenewalAnswer_EXPIRED}, nil
	case "nowhere":
		return nil, &outcome.Error{Outcome: outcome.NotApplied, Err: outcome.ErrNoLeader}
	case "broken":
		return nil, errors.New("lease is broken")
	case "panic":
		panic("lease")
	}
	return &internalv1.RenewalAnswer{Outcome: internalv1.RenewalAnswer_RENEWED, TtlMs: 300_000, IntervalMs: 60_000}, nil
}

// way is one way to call the heartbeat service, with the metrics, events and logs of its
// calls.
type way struct {
	reg *prometheus.Registry

	mu      sync.Mutex
	refused []string // in the audit trail

	alive     func(context.Context, *holdfastv1.KeepMachineAliveRequest) (proto.Message, error)
	heartbeat func(context.Context, *holdfastv1.HeartbeatPoolRequest) (proto.Message, error)
	ping      func(context.Context, *holdfastv1.PingServiceRequest) (proto.Message, error)
}

func newWay(t *testing.T, direct bool) *way {
	t.Helper()
	w := &way{reg: prometheus.NewRegistry()}
	n, _ := twoPools(t)
	gate, err := auth.New(auth.Config{PeerID: "p1", Registerer: w.reg}, auth.Deps{
		Records: func() auth.Records { return n.Peer.View() },
		Fresh:   func(context.Context) (auth.Records, error) { return n.Peer.View(), nil },
		Report: func(_ context.Context, d *internalv1.RecordDenials) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, e := range d.GetEvents() {
				w.refused = append(w.refused, fmt.Sprint(e.GetPrincipal(), " ", e.GetMethod(), " ", e.GetResource(), " ",
					e.GetReason()))
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = gate.Denials().Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	s := New(Config{Gate: gate, Leases: oddLeases{}, Registerer: w.reg, Gatherer: w.reg}, n, n.Peer, testProviders())
	if direct {
		h := s.Heartbeats()
		w.alive = func(ctx context.Context, r *holdfastv1.KeepMachineAliveRequest) (proto.Message, error) {
			return h.KeepMachineAlive(ctx, r)
		}
		w.heartbeat = func(ctx context.Context, r *holdfastv1.HeartbeatPoolRequest) (proto.Message, error) {
			return h.HeartbeatPool(ctx, r)
		}
		w.ping = func(ctx context.Context, r *holdfastv1.PingServiceRequest) (proto.Message, error) {
			return h.PingService(ctx, r)
		}
		return w
	}
	c := holdfastv1.NewHeartbeatServiceClient(s.InProcess())
	w.alive = func(ctx context.Context, r *holdfastv1.KeepMachineAliveRequest) (proto.Message, error) {
		return c.KeepMachineAlive(ctx, r)
	}
	w.heartbeat = func(ctx context.Context, r *holdfastv1.HeartbeatPoolRequest) (proto.Message, error) {
		return c.HeartbeatPool(ctx, r)
	}
	w.ping = func(ctx context.Context, r *holdfastv1.PingServiceRequest) (proto.Message, error) {
		return c.PingService(ctx, r)
	}
	return w
}

// counted returns the metrics, except durations.
func (w *way) counted(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := w.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := fmt.Sprint(f.GetName(), m.GetLabel())
			switch {
			case m.GetCounter() != nil:
				got[name] = m.GetCounter().GetValue()
			case m.GetHistogram() != nil:
				got[name] = float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return got
}

// TestHeartbeatsAreCalls checks that heartbeats over the HTTP APIs have the same answers,
// metrics and audit events as gRPC calls, for every caller and every request.
func TestHeartbeatsAreCalls(t *testing.T) {
	direct, overGRPC := newWay(t, true), newWay(t, false)
	for _, tt := range []struct {
		who *holdfastv1.Identity
		ids []string
	}{
		{&holdfastv1.Identity{Principal: "user:root", Role: holdfastv1.Role_ADMIN, Method: auth.MethodCertificate},
			[]string{"", "m-a", "gone", "over", "nowhere", "broken", "panic"}},
		{&holdfastv1.Identity{Principal: "agent:m-a", Role: holdfastv1.Role_AGENT, MachineId: "m-a",
			Method: auth.MethodToken}, []string{"m-a", "m-b"}},
		{&holdfastv1.Identity{Principal: "agent:", Role: holdfastv1.Role_AGENT, Method: auth.MethodToken}, []string{"m-a"}},
		{&holdfastv1.Identity{Principal: "pool:a", Role: holdfastv1.Role_POOL_AGENT, Pools: []string{"a"},
			Method: auth.MethodToken}, []string{"m-a", "m-b", "a", "gone"}},
		{&holdfastv1.Identity{Principal: "service:s", Role: holdfastv1.Role_SERVICE, Method: auth.MethodToken},
			[]string{"m-a"}},
		{&holdfastv1.Identity{Principal: "user:v", Role: holdfastv1.Role_VIEWER, Method: auth.MethodCertificate},
			[]string{"m-a"}},
		{&holdfastv1.Identity{Principal: "token:revoked", Role: holdfastv1.Role_ADMIN, Method: auth.MethodToken,
			TokenId: "tok-none"}, []string{"m-a"}},
		{&holdfastv1.Identity{Principal: "peer:p2", Method: auth.MethodCertificate}, []string{"m-a"}},
	} {
		who, ctx := tt.who, auth.NewContext(t.Context(), &auth.Caller{Identity: tt.who, Source: "10.0.0.1", Peer: "p1",
			Method: "POST /x"})
		for _, id := range tt.ids {
			for name, call := range map[string]func(*way) (proto.Message, error){
				"keepalive": func(w *way) (proto.Message, error) {
					return w.alive(ctx, &holdfastv1.KeepMachineAliveRequest{MachineId: id, PoolName: "a", AgentVersion: "1",
						Metrics: &holdfastv1.AgentMetrics{FreeGpuCount: 1}})
				},
				"heartbeat": func(w *way) (proto.Message,
					error) {
					return w.heartbeat(ctx, &holdfastv1.HeartbeatPoolRequest{PoolId: id})
				},
				"ping": func(w *way) (proto.Message, error) { return w.ping(ctx, &holdfastv1.PingServiceRequest{Id: id}) },
			} {
				got, err := call(direct)
				want, wantErr := call(overGRPC)
				st, wantSt := status.Convert(err).Proto(), status.Convert(wantErr).Proto()
				if codes.Code(wantSt.GetCode()) == codes.Internal { // it has an id of its own each time
					st.Message, wantSt.Message, st.Details, wantSt.Details = "", "", nil, nil
				}
				if diff := cmp.Diff(wantSt, st, protocmp.Transform()); diff != "" {
					t.Errorf("%s of %q by %s: error (-gRPC +direct):\n%s", name, id, who.GetPrincipal(), diff)
				}
				if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" && err == nil {
					t.Errorf("%s of %q by %s (-gRPC +direct):\n%s", name, id, who.GetPrincipal(), diff)
				}
			}
		}
	}
	if diff := cmp.Diff(overGRPC.counted(t), direct.counted(t)); diff != "" {
		t.Errorf("metrics (-gRPC +direct):\n%s", diff)
	}
	direct.sameTrail(t, overGRPC)
	if _, err := direct.alive(t.Context(),
		&holdfastv1.KeepMachineAliveRequest{MachineId: "m-a"}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("without a caller: got %v, want Unauthenticated", err)
	}
}

// sameTrail waits until both have the same refusals in the audit trail.
func (w *way) sameTrail(t *testing.T, other *way) {
	t.Helper()
	trail := func(w *way) []string {
		w.mu.Lock()
		defer w.mu.Unlock()
		return slices.Sorted(slices.Values(w.refused))
	}
	var diff string
	// sleep: the poll of a deadline
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if diff = cmp.Diff(trail(other), trail(w)); diff == "" && len(trail(w)) > 10 {
			return
		}
	}
	t.Errorf("%d refusals in the audit trail (-gRPC +direct):\n%s", len(trail(w)), diff)
}
