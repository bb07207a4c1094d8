package robustness

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
	"github.com/holdfast-metal/holdfast/internal/wait"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/program"
	"github.com/holdfast-metal/holdfast/test/robustness/harness"
)

// TestWrongClockOfALeader sets the clock of one peer off by forty days, which is longer than its
// certificates last, and lets it lead. It must stay a member, say what is wrong within seconds, and
// neither date records nor begin or end tokens by its clock. Another leader then follows.
func TestWrongClockOfALeader(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute: run without -short")
	}
	if m := harness.ClocksMissing(); m != "" {
		t.Skip(m)
	}
	binary, err := program.Build{}.Into(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, off := range map[string]time.Duration{"ahead": 40 * 24 * time.Hour, "behind": -40 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) { wrongClock(t, binary, off) })
	}
}

func wrongClock(t *testing.T, binary string, off time.Duration) {
	c := cluster(t, executables{holdfast: binary}, fixedSeed, harness.QuickRaft, nil)
	ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
	defer stop()
	at, err := c.LeaderNow(ctx)
	if err != nil {
		t.Fatal(err)
	}
	leader := c.Peers()[at]
	wrong := c.Peers()[(at+1)%len(c.Peers())]
	clock, err := harness.SetClock(ctx, wrong, off)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = clock.Restore(context.WithoutCancel(ctx)) }()

	eventually(ctx, t, "the warning about the clock of "+wrong.ID, func() error {
		st, err := rpc(ctx, c, leader).cluster.GetClusterStatus(ctx, &holdfastv1.GetClusterStatusRequest{})
		if err != nil {
			return err
		}
		i := slices.IndexFunc(st.GetPeers(), func(p *holdfastv1.Peer) bool { return p.GetId() == wrong.ID })
		if i < 0 || !strings.Contains(st.GetPeers()[i].GetWarning(), "clock: ") {
			return fmt.Errorf("peers: %v", st.GetPeers())
		}
		return nil
	})
	for i, next := range []*localcluster.Peer{wrong, leader, wrong} {
		k := rpc(ctx, c, next)
		eventually(ctx, t, next.ID+" to lead", func() error {
			_, err := k.operator.TransferLeadership(ctx, &holdfastv1.TransferLeadershipRequest{To: next.ID})
			if err != nil {
				return err
			}
			now, err := c.LeaderNow(ctx)
			if err == nil && c.Peers()[now] != next {
				return fmt.Errorf("peer %s leads", c.Peers()[now].ID)
			}
			return err
		})
		for range 3 { // the first commands of a term, and later ones
			id := fmt.Sprintf("m-%d-%d", i, time.Now().UnixNano())
			m, err := k.machines.RegisterMachine(ctx,
				&holdfastv1.RegisterMachineRequest{Machine: &holdfastv1.Machine{MachineId: id}})
			if err != nil {
				t.Fatalf("register through %s: %v", next.ID, err)
			}
			near(t, "created_at by "+next.ID, m.GetCreatedAt().AsTime(), time.Now(), fsm.MaxClockMove)
		}
	}
	tok, err := rpc(ctx, c, wrong).access.CreateToken(ctx, &holdfastv1.CreateTokenRequest{Name: "hour",
		Role: holdfastv1.Role_OPERATOR, TtlSeconds: 3600})
	if err != nil {
		t.Fatal(err)
	}
	near(t, "end of a token of "+wrong.ID, tok.GetToken().GetExpiresAt().AsTime(), time.Now().Add(time.Hour), time.Minute)
	for _, p := range c.Peers() {
		k, err := c.Caller(p, tok.GetSecret())
		if err != nil {
			t.Fatal(err)
		}
		eventually(ctx, t, "the token at "+p.ID, func() error { _, err := k.Read(ctx); return err })
		k.Close()
	}
}

// near checks a time.
func near(t *testing.T, name string, got, want time.Time, within time.Duration) {
	t.Helper()
	if off := got.Sub(want); off.Abs() > within {
		t.Errorf("%s: off by %v, want at most %v", name, off, within)
	}
}

// eventually blocks until f returns nil.
func eventually(ctx context.Context, t *testing.T, what string, f func() error) {
	t.Helper()
	ctx, stop := context.WithTimeout(ctx, 30*time.Second)
	defer stop()
	for {
		err := f()
		if err == nil {
			return
		}
		if wait.Sleep(ctx, 100*time.Millisecond) != nil {
			t.Fatalf("wait for %s: %v", what, err)
		}
	}
}

// clients are the services of one peer, as an admin.
type clients struct {
	cluster  holdfastv1.ClusterServiceClient
	operator holdfastv1.OperatorServiceClient
	machines holdfastv1.MachineServiceClient
	access   holdfastv1.AccessServiceClient
}

func rpc(ctx context.Context, c *harness.Cluster, p *localcluster.Peer) clients {
	conn, err := grpc.NewClient("passthrough:///"+p.GRPCAddr, grpc.WithTransportCredentials(c.Credentials()))
	if err != nil {
		panic(err)
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	return clients{holdfastv1.NewClusterServiceClient(conn), holdfastv1.NewOperatorServiceClient(conn),
		holdfastv1.NewMachineServiceClient(conn), holdfastv1.NewAccessServiceClient(conn)}
}
