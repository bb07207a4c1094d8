package machineapi_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/guard"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
	"github.com/holdfast-metal/holdfast/server"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/machineapi"
)

const hotBody = `{"machine_id":"m-000001","provider_name":"generic","pool_name":"bench","agent_version":"bench-1","metrics":{"cpu_utilization_pct":12.5,"memory_utilization_pct":50.1,"total_cpu_available":64000,"total_memory_available":524288,"free_gpu_count":8}}`

// records has one token, of machine m-000001.
type records struct{ token *holdfastv1.Token }

func (r *records) TokenByHash(sum []byte) (*holdfastv1.Token, bool) {
	want := sha256.Sum256([]byte("secret"))
	return r.token, string(sum) == string(want[:])
}
func (r *records) Token(string) (*holdfastv1.Token, bool) { return r.token, true }
func (*records) SigningKeys() []*internalv1.SigningKey    { return nil }
func (r *records) TokensMark() any                        { return r.token }

// node is a peer that must not be called: keepalives go to the leases.
type node struct{ state *fsm.FSM }

var errNode = errors.New("unexpected call")

func (n node) Apply(context.Context, *internalv1.Command) (fsm.Result, error) {
	return fsm.Result{}, errNode
}
func (n node) View(context.Context) (*fsm.View, error)        { return n.state.View(), nil }
func (node) Leader() (string, bool, bool)                     { return "n1", true, true }
func (node) Role() string                                     { return "leader" }
func (node) Readiness() error                                 { return nil }
func (node) Status(context.Context) *holdfastv1.ClusterStatus { return &holdfastv1.ClusterStatus{} }

// leases accepts every renewal at once.
type leases struct{}

func (leases) Renew(_ context.Context, _ *internalv1.Renewal) (*internalv1.RenewalAnswer, error) {
	return &internalv1.RenewalAnswer{Outcome: internalv1.RenewalAnswer_RENEWED, TtlMs: 300_000, IntervalMs: 60_000,
		At: timestamppb.Now()}, nil
}

// hotHandler is a peer's HTTP handler as `holdfast server` builds it, without the cluster.
func hotHandler(tb testing.TB) http.Handler {
	tb.Helper()
	r := &records{&holdfastv1.Token{TokenId: "t-1", Role: holdfastv1.Role_AGENT, MachineId: "m-000001"}}
	gate, err := auth.New(auth.Config{PeerID: "n1", RatePerSecond: 1e9}, auth.Deps{
		Records: func() auth.Records { return r },
		Fresh:   func(context.Context) (auth.Records, error) { return r, nil },
		Report:  func(context.Context, *internalv1.RecordDenials) error { return nil },
	})
	if err != nil {
		tb.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	set, err := providers.NewSet(map[string]providers.Factory{"fake": fake.Factory}, nil, log)
	if err != nil {
		tb.Fatal(err)
	}
	state := fsm.New()
	srv := server.New(server.Config{Gate: gate, Leases: leases{}}, node{state}, state, set)
	return srv.HTTPHandler(func(m *auth.Mux, rpc grpc.ClientConnInterface) {
		machineapi.Register(m, rpc,
			srv.Heartbeats(), log)
	})
}

// TestGuardKeepalive limits the allocations of a keepalive between its connection and the
// forwarding to the leader, the hot path of a large fleet. It was 101 when it went through
// gRPC and parsed texts twice. Three are of this test; encoding/json makes 19.
func TestGuardKeepalive(t *testing.T) {
	guard.Check(t, "edge.keepalive.allocs", testing.AllocsPerRun(200, keepaliveOnce(t)))
}

// BenchmarkKeepalive measures a keepalive without its connection and the forwarding to the
// leader.
func BenchmarkKeepalive(b *testing.B) {
	once := keepaliveOnce(b)
	b.ReportAllocs()
	for b.Loop() {
		once()
	}
}

// keepaliveOnce returns a function that makes one keepalive.
func keepaliveOnce(tb testing.TB) func() {
	tb.Helper()
	h := hotHandler(tb)
	in := strings.NewReader(hotBody)
	r := httptest.NewRequest(http.MethodPost, "http://localhost"+keepalive, in)
	r.Header.Set("Authorization", "Bearer secret")
	return func() {
		w := &discard{}
		in.Reset(hotBody)
		r.Body = io.NopCloser(in)
		h.ServeHTTP(w, r)
		if w.code != http.StatusOK {
			tb.Fatalf("got %d", w.code)
		}
	}
}

// discard is a ResponseWriter that records only the status.
type discard struct {
	h    http.Header
	code int
}

func (d *discard) Header() http.Header {
	if d.h == nil {
		d.h = http.Header{}
	}
	return d.h
}
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(code int)        { d.code = code }
