package server

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
)

// able is a provider with every capability. Calls would panic, but there are none.
type able struct {
	providers.Inspector
	providers.PowerController
	providers.BootController
	providers.Imager
	providers.RemoteExecutor
	providers.ClusterJoiner
	providers.NetConfigurator
}

func (able) Kind() string { return "able" }

// powerOnly is a provider that can only switch power.
type powerOnly struct {
	providers.Inspector
	providers.PowerController
}

func (powerOnly) Kind() string { return "power-only" }

func testProviders() *providers.Set {
	return providers.SetOf(map[string]providers.Provider{"fake": able{}, "button": powerOnly{}})
}

// clients are stubs on a connection to a server.
type clients struct {
	holdfastv1.MachineServiceClient
	holdfastv1.PlanServiceClient
	holdfastv1.RunServiceClient
	holdfastv1.ClusterServiceClient
	conn *grpc.ClientConn
}

// serve starts a server over a node.
func serve(t *testing.T, n *nodetest.Node, cfg Config) (*Server, *clients) {
	t.Helper()
	s := New(cfg, n, n.Peer, testProviders())
	g := grpc.NewServer(s.GRPCOptions()...)
	s.Register(g)
	lis := bufconn.Listen(1 << 20)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = g.Serve(lis)
	}()
	conn, err := grpc.NewClient("passthrough:///bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		g.Stop()
		<-done
	})
	return s, &clients{
		holdfastv1.NewMachineServiceClient(conn), holdfastv1.NewPlanServiceClient(conn),
		holdfastv1.NewRunServiceClient(conn), holdfastv1.NewClusterServiceClient(conn), conn,
	}
}

func testCtx(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// eventually polls until a condition holds.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(15 * time.Second); !cond(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("gave up waiting until %s", what)
		}
	}
}

// detail returns the first detail of a type.
func detail[D any](err error) (d D) {
	for _, a := range status.Convert(err).Details() {
		if got, ok := a.(D); ok {
			return got
		}
	}
	return d
}

// wantError checks an error's code and reason.
func wantError(t testing.TB, err error, code codes.Code, reason string) {
	t.Helper()
	info := detail[*errdetails.ErrorInfo](err)
	if status.Code(err) != code || info.GetReason() != reason {
		t.Fatalf("got %v with reason %q (%v), want %v with %q", status.Code(err), info.GetReason(), err, code, reason)
	}
	if reason != "" && info.GetDomain() != "holdfast.dev" {
		t.Fatalf("got domain %q", info.GetDomain())
	}
}

// logBuffer collects log lines.
type logBuffer struct {
	mu   sync.Mutex
	text []byte
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = append(b.text, p...)
	return len(p), nil
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.text)
}

func (b *logBuffer) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// The peer and its state implement the interfaces of a Server.
var (
	_ Cluster = (*cluster.Peer)(nil)
	_ State   = (*fsm.FSM)(nil)
)
