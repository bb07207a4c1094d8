package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/cluster/call"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
	"github.com/holdfast-metal/holdfast/server/poolapi"
)

func get(t *testing.T, s *Server, method, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	s.HTTPHandler().ServeHTTP(w, httptest.NewRequest(method, "http://localhost"+path, nil))
	body, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, string(body)
}

func TestHTTP(t *testing.T) {
	n := nodetest.New()
	s := New(Config{Version: "1.2.3"}, n, n.Peer, testProviders())
	for _, tt := range []struct {
		method, path string
		code         int
		body         string
	}{
		{"GET", "/healthz", 200, "ok"},
		{"GET", "/version", 200, `"version":"1.2.3"`},
		{"GET", "/readyz", 200, `{"role":"leader","leader":"p1","applied_index":`},
		{"GET", "/metrics", 200, `holdfast_machines{effective_state="READY"} 0`},
		{"GET", "/", 302, `href="/ui/"`},
		{"POST", "/", 404, `there is no route POST \"/\": see /docs`},
		{"GET", "/nothing", 404, `there is no route GET \"/nothing\": see /docs`},
		{"GET", "/machines/m-1", 404, `there is no route GET \"/machines/m-1\": did you mean /v1/machines/m-1?`},
		{"GET", "/api/v3/machines", 404, `{"detail":"Not Found"}`},
		{"POST", "/healthz", 405, `there is no route POST \"/healthz\": the path has GET, HEAD: see /docs`},
	} {
		if code, body := get(t, s, tt.method, tt.path); code != tt.code || !strings.Contains(body, tt.body) {
			t.Errorf("%s %s: got %d %q, want %d with %q", tt.method, tt.path, code, body, tt.code, tt.body)
		}
	}
}

func TestReadiness(t *testing.T) {
	for _, tt := range []struct {
		name string
		make func(*Server, *nodetest.Node)
		code int
		want readiness
	}{
		{"leader", func(*Server, *nodetest.Node) {}, 200, readiness{Role: "leader", Leader: "p1"}},
		{"follower", func(_ *Server, n *nodetest.Node) { n.SetLeader("p2") }, 200, readiness{Role: "follower", Leader: "p2"}},
		{"no leader", func(_ *Server, n *nodetest.Node) { n.SetLeader("") }, 503,
			readiness{Role: "candidate", Error: "no leader: n2 does not answer"}},
		{"no vote", func(_ *Server, n *nodetest.Node) { n.SetLeader("p2"); n.NoVote = errors.New("it catches up") }, 503,
			readiness{Role: "follower", Leader: "p2", Error: "it catches up"}},
		{"draining", func(s *Server, _ *nodetest.Node) { s.Drain() }, 503,
			readiness{Role: "leader", Leader: "p1", Error: edge.ErrDraining.Error()}},
		{"halted", func(_ *Server, n *nodetest.Node) {
			c := nodetest.Command(&internalv1.NoOp{})
			c.FeatureLevel = 99
			n.Peer.Propose(c)
		}, 503, readiness{Role: "leader", Leader: "p1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := nodetest.New()
			s, c := serve(t, n, Config{})
			tt.make(s, n)
			code, body := get(t, s, "GET", "/readyz")
			var got readiness
			if err := json.Unmarshal([]byte(body), &got); err != nil {
				t.Fatal(err)
			}
			if got.AppliedIndex != n.Peer.View().Index() || got.AppliedIndex == 0 {
				t.Errorf("applied index is %d", got.AppliedIndex)
			}
			if tt.name == "halted" {
				tt.want.Error = n.Peer.HaltError().Error()
			}
			got.AppliedIndex = 0
			if code != tt.code || got != tt.want {
				t.Errorf("got %d %+v, want %d %+v", code, got, tt.code, tt.want)
			}
			h, err := grpc_health_v1.NewHealthClient(c.conn).Check(testCtx(t),
				&grpc_health_v1.HealthCheckRequest{Service: "holdfast.v1.RunService"})
			if serving := h.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING; err != nil || serving != (code == 200) {
				t.Errorf("gRPC health says %v, %v", h.GetStatus(), err)
			}
		})
	}
}

func TestHealth(t *testing.T) {
	n := nodetest.New()
	s, c := serve(t, n, Config{})
	h := grpc_health_v1.NewHealthClient(c.conn)
	ctx := testCtx(t)
	_, err := h.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: "nothing"})
	wantError(t, err, codes.NotFound, "SERVICE_UNKNOWN")
	all, err := h.List(ctx, &grpc_health_v1.HealthListRequest{})
	if err != nil || len(all.GetStatuses()) != 5 {
		t.Errorf("List: got %v, %v", all, err)
	}

	w, err := h.Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		make func()
		want grpc_health_v1.HealthCheckResponse_ServingStatus
	}{
		{func() {}, grpc_health_v1.HealthCheckResponse_SERVING},
		{func() { n.SetLeader("") }, grpc_health_v1.HealthCheckResponse_NOT_SERVING},
		{func() { n.SetLeader("p2") }, grpc_health_v1.HealthCheckResponse_SERVING},
		{s.Drain, grpc_health_v1.HealthCheckResponse_NOT_SERVING},
	} {
		step.make()
		if r, err := w.Recv(); err != nil || r.GetStatus() != step.want {
			t.Fatalf("got %v, %v, want %v", r.GetStatus(), err, step.want)
		}
	}
	if _, err := w.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("after draining: got %v", err)
	}
}

func TestReflection(t *testing.T) {
	_, c := serve(t, nodetest.New(), Config{})
	s, err := grpc_reflection_v1.NewServerReflectionClient(c.conn).ServerReflectionInfo(testCtx(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(&grpc_reflection_v1.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{},
	}); err != nil {
		t.Fatal(err)
	}
	r, err := s.Recv()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, svc := range r.GetListServicesResponse().GetService() {
		names = append(names, svc.GetName())
	}
	for _, want := range []string{"holdfast.v1.MachineService", "holdfast.v1.PlanService", "holdfast.v1.RunService",
		"holdfast.v1.ClusterService", "grpc.health.v1.Health"} {
		if !strings.Contains(strings.Join(names, " "), want) {
			t.Errorf("%s is missing in %v", want, names)
		}
	}
}

// TestHTTPLimits checks that an idle connection is closed.
func TestHTTPLimits(t *testing.T) {
	s := New(Config{}, nodetest.New(), nodetest.New().Peer, testProviders())
	srv := s.HTTPServer(http.NotFoundHandler())
	if srv.ReadHeaderTimeout <= 0 || srv.IdleTimeout <= 0 || srv.MaxHeaderBytes <= 0 || srv.Handler == nil {
		t.Errorf("got %+v", srv)
	}
}

func TestClusterStatus(t *testing.T) {
	_, c := serve(t, nodetest.New(), Config{})
	st, err := c.GetClusterStatus(testCtx(t), &holdfastv1.GetClusterStatusRequest{})
	if err != nil || st.GetLeader() != "p1" || st.GetAnsweredBy() != "p1" {
		t.Errorf("got %v, %v", st, err)
	}
}

// TestCallTimeout checks that a call without a deadline gets one.
func TestCallTimeout(t *testing.T) {
	n := nodetest.New()
	n.Viewed = func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	_, c := serve(t, n, Config{CallTimeout: 10 * time.Millisecond})
	_, err := c.GetMachine(context.Background(), &holdfastv1.GetMachineRequest{MachineId: "m-1"})
	wantError(t, err, codes.DeadlineExceeded, "")
}

// sayer is a Forwarder that returns the id of this peer, and the requested consistency.
type sayer struct {
	Forwarder
	asked string
}

func (f *sayer) InterceptUnary(
	ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler,
) (any, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	f.asked = strings.Join(md.Get(call.HeaderConsistency), ",")
	if err := grpc.SetHeader(ctx, metadata.Pairs(call.HeaderIndex, "41", call.HeaderLeader, "p2",
		call.HeaderLastContact, "7")); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

// TestHTTPConsistency checks that the HTTP APIs pass on the requested consistency and
// return the freshness of their answers (docs/concepts.md).
func TestHTTPConsistency(t *testing.T) {
	n, f := nodetest.New(), &sayer{}
	s := New(Config{Forwarder: f}, n, n.Peer, testProviders())
	h := s.HTTPHandler(func(m *auth.Mux, rpc grpc.ClientConnInterface) { poolapi.Register(m, rpc, s.Heartbeats()) })
	for path, want := range map[string]string{"/v2/pools?consistency=stale": "stale", "/v2/pools": ""} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost"+path, nil))
		got := fmt.Sprint(w.Code, " ", w.Header().Get(call.HeaderIndex), " ", w.Header().Get(call.HeaderLeader), " ",
			w.Header().Get(call.HeaderLastContact))
		if got != "200 41 p2 7" || f.asked != want {
			t.Errorf("%s: got %s, asked for %q, want %q", path, got, f.asked, want)
		}
	}
}
