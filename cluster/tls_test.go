package cluster_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/cluster/clustertest"
	"github.com/holdfast-metal/holdfast/cluster/peertls/issue"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// dialAs connects to a peer's gRPC with a certificate, or without one.
func dialAs(t testing.TB, c *clustertest.Cluster, p *clustertest.Peer, pair issue.Pair) *grpc.ClientConn {
	t.Helper()
	cc, err := grpc.NewClient(p.Conn.Target(), grpc.WithTransportCredentials(c.ClientCredentials(pair)),
		grpc.WithDisableRetry())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	return cc
}

func peerPair(t testing.TB, ca *issue.CA, name, id string) issue.Pair {
	t.Helper()
	p, err := ca.Peer(name, id, nil, time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func clientPair(t testing.TB, ca *issue.CA, user string) issue.Pair {
	t.Helper()
	p, err := ca.Client(user, []string{"admin"}, time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Peer methods answer only peers of this cluster.
func TestOnlyPeersCallPeers(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, clustertest.Options{TLS: true, Configure: calm})
	leader := c.Leader()
	settled(t, c, 3)
	from := c.Followers(leader)[0].ID
	other := c.NewCA(clustertest.ClusterName)
	for _, tc := range []struct {
		name string
		pair issue.Pair
		want codes.Code
	}{
		{"a peer", peerPair(t, c.CA, clustertest.ClusterName, from), codes.OK},
		{"no certificate", issue.Pair{}, codes.PermissionDenied},
		{"an admin", clientPair(t, c.CA, "root"), codes.PermissionDenied},
		{"an admin with the name of a peer", clientPair(t, c.CA, from), codes.PermissionDenied},
		{"a peer of another cluster", peerPair(t, c.CA, "lab", from), codes.Unavailable}, // the handshake fails
		{"a peer of another CA", peerPair(t, other, clustertest.ClusterName, from), codes.Unavailable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cc := dialAs(t, c, leader, tc.pair)
			peers := internalv1.NewPeerServiceClient(cc)
			_, err := peers.Stats(t.Context(), &internalv1.StatsRequest{})
			if got := status.Code(err); got != tc.want {
				t.Errorf("Stats: got %v (%v), want %v", got, err, tc.want)
			}
			if tc.want == codes.OK {
				return
			}
			for name, call := range map[string]func() error{
				"Confirm":   func() error { _, err := peers.Confirm(t.Context(), &internalv1.ConfirmRequest{}); return err },
				"ReadIndex": func() error { _, err := peers.ReadIndex(t.Context(), &internalv1.ReadIndexRequest{}); return err },
				"StandDown": func() error {
					_, err := peers.StandDown(t.Context(), &internalv1.StandDownRequest{Term: 1 << 40})
					return err
				},
				"Admit": func() error { _, err := peers.Admit(t.Context(), &internalv1.AdmitRequest{}); return err },
				"Leave": func() error {
					_, err := peers.Leave(t.Context(), &internalv1.LeaveRequest{PeerId: from})
					return err
				},
			} {
				if got := status.Code(call()); got != tc.want {
					t.Errorf("%s: got %v, want %v", name, got, tc.want)
				}
			}
		})
	}
	// A peer can remove only itself.
	pair := peerPair(t, c.CA, clustertest.ClusterName, from)
	_, err := internalv1.NewPeerServiceClient(dialAs(t, c, leader, pair)).Leave(t.Context(),
		&internalv1.LeaveRequest{PeerId: c.Followers(leader)[1].ID})
	if status.Code(err) != codes.PermissionDenied {
		t.Errorf("leave for another peer: got %v", err)
	}
	if !leader.Node.Ready() || c.Leader() != leader {
		t.Error("got another leader after the calls")
	}
}

// The forwarding header is trusted only from the peer that it names.
func TestForwardingHeaderIsTrustedFromPeersOnly(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, clustertest.Options{TLS: true, Configure: calm})
	leader := c.Leader()
	settled(t, c, 3)
	f := c.Followers(leader)
	for i, tc := range []struct {
		name    string
		pair    issue.Pair
		mark    string
		trusted bool // a follower then serves the call itself, which it cannot
	}{
		{"the peer itself", peerPair(t, c.CA, clustertest.ClusterName, f[1].ID), f[1].ID, true},
		{"another peer", peerPair(t, c.CA, clustertest.ClusterName, f[1].ID), leader.ID, false},
		{"a client", clientPair(t, c.CA, "root"), f[1].ID, false},
		{"no certificate", issue.Pair{}, f[1].ID, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx := metadata.AppendToOutgoingContext(t.Context(), "holdfast-forwarded-by", tc.mark)
			_, err := holdfastv1.NewMachineServiceClient(dialAs(t, c, f[0], tc.pair)).RegisterMachine(ctx,
				&holdfastv1.RegisterMachineRequest{Machine: &holdfastv1.Machine{MachineId: fmt.Sprintf("m%d", i)}})
			if (err != nil) != tc.trusted {
				t.Errorf("got error %v, want one: %t", err, tc.trusted)
			}
		})
	}
}

// A process with the gossip key and a certificate of another cluster takes part in gossip only.
func TestUnknownPeerDoesNotJoin(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		why   string // it reports
		spoil func(c *clustertest.Cluster, p *clustertest.Peer)
	}{
		{"another cluster", "of cluster test, but this is cluster lab", func(c *clustertest.Cluster, p *clustertest.Peer) {
			c.Certify(p, c.CA, "lab", c.CA.Pair.Cert)
		}},
		{"another CA", "refuses the certificate of this peer", func(c *clustertest.Cluster, p *clustertest.Peer) {
			ca := c.NewCA(clustertest.ClusterName)
			c.Certify(p, ca, clustertest.ClusterName, slices.Concat(ca.Pair.Cert, c.CA.Pair.Cert))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := fourth(t)
			leader, p := c.Leader(), c.Peers[3]
			settled(t, c, 3)
			tc.spoil(c, p)
			if err := c.TryStart(p, leader.Node.GossipAddr()); err != nil {
				t.Fatal(err)
			}
			clustertest.Eventually(t, 30*time.Second, "gossip to see the peer", func() error {
				for _, s := range leader.Node.Status(t.Context()).GetPeers() {
					if s.GetId() == p.ID && s.GetAlive() {
						return nil
					}
				}
				return fmt.Errorf("not seen")
			})
			reports(t, p, tc.why)
			if got := suffrage(t, leader, p); got != "none" {
				t.Errorf("got suffrage %s, want none", got)
			}
			store, err := c.Store(p)
			if err != nil {
				t.Fatal(err)
			}
			for _, q := range c.Peers[:3] {
				if granted, err := q.Node.AskVoteAs(store, bold()); granted || err == nil {
					t.Errorf("vote request to %s: got granted %t, %v", q.ID, granted, err)
				}
				if granted, err := q.Node.AskVoteAs(nil, bold()); granted || err == nil {
					t.Errorf("vote request to %s without TLS: got granted %t, %v", q.ID, granted, err)
				}
			}
			if c.Leader() != leader {
				t.Error("got another leader")
			}
			// With the right certificate it can join, without a restart.
			c.Certify(p, c.CA, clustertest.ClusterName, c.CA.Pair.Cert)
			if tc.name == "another cluster" {
				c.Kill(p) // a running peer cannot change its cluster
				c.Restart(p)
			}
			settled(t, c, 4)
		})
	}
}

// reports waits until a peer reports why it has not joined.
func reports(t *testing.T, p *clustertest.Peer, why string) {
	t.Helper()
	clustertest.Eventually(t, 10*time.Second, "the reason of "+p.ID, func() error {
		err := p.Node.Readiness()
		problem := p.Node.Status(t.Context()).GetProblem()
		if err != nil && strings.Contains(err.Error(), why) && strings.Contains(problem, why) {
			return nil
		}
		return fmt.Errorf("got %w and status %q, want %q in both", err, problem, why)
	})
}

// fourth starts three peers. The fourth one only joins and is not started.
func fourth(t *testing.T) *clustertest.Cluster {
	return clustertest.Start(t, clustertest.Options{Peers: 4, TLS: true, Stopped: func(i int) bool { return i == 3 },
		Configure: func(i int, c *cluster.Config) {
			c.BootstrapExpect, c.RaftMultiplier = 3, 3 // only the test causes elections
			if i == 3 {
				c.BootstrapExpect, c.RaftMultiplier = 0, 1 // it tries to join every five seconds
			}
			c.FastKeys()
		}})
}

func TestWrongGossipKeyDoesNotJoin(t *testing.T) {
	t.Parallel()
	c := fourth(t)
	leader, p := c.Leader(), c.Peers[3]
	settled(t, c, 3)
	c.WriteFile(c.GossipKeyFile(p), []byte(clustertest.GossipKey()))
	if err := c.TryStart(p, leader.Node.GossipAddr()); err != nil {
		t.Fatal(err)
	}
	reports(t, p, leader.Node.GossipAddr()+": encrypts with another gossip key")
	for _, s := range leader.Node.Status(t.Context()).GetPeers() {
		if s.GetId() == p.ID {
			t.Errorf("gossip: got %v, want it unknown", s)
		}
	}
	c.CopyGossipKey(c.Peers[0], p)
	settled(t, c, 4)
}

// load writes through every peer until it is stopped, over persistent and new connections.
// It reports every failure.
type load struct {
	writes atomic.Int64
	stop   func()
}

func startLoad(t *testing.T, c *clustertest.Cluster) *load {
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{}
	done := make(chan struct{})
	running := 0
	go1 := func(f func(n int) error) {
		running++
		go func() {
			defer func() { done <- struct{}{} }()
			for n := 0; ctx.Err() == nil; n++ {
				if err := f(n); err != nil && ctx.Err() == nil {
					t.Errorf("write %d: %v", n, err)
					return
				}
				l.writes.Add(1)
			}
		}()
	}
	for _, p := range c.Peers {
		go1(func(n int) error {
			return register(ctx, p, fmt.Sprintf("stay-%s-%d", p.ID, n))
		})
		go1(func(n int) error {
			cc, err := grpc.NewClient(p.Conn.Target(), grpc.WithTransportCredentials(c.ClientCredentials(issue.Pair{})),
				grpc.WithDisableRetry())
			if err != nil {
				return err
			}
			defer cc.Close()
			_, err = holdfastv1.NewMachineServiceClient(cc).RegisterMachine(ctx,
				&holdfastv1.RegisterMachineRequest{Machine: &holdfastv1.Machine{MachineId: fmt.Sprintf("new-%s-%d", p.ID, n)}})
			return err
		})
	}
	l.stop = func() {
		cancel()
		for ; running > 0; running-- {
			<-done
		}
	}
	t.Cleanup(l.stop)
	return l
}

// more blocks until some more writes have been made.
func (l *load) more(t *testing.T, n int64) {
	t.Helper()
	want := l.writes.Load() + n
	clustertest.Eventually(t, 30*time.Second, "further writes", func() error {
		if got := l.writes.Load(); got < want && !t.Failed() {
			return fmt.Errorf("%d of %d", got, want)
		}
		return nil
	})
}

// TestRotationUnderLoad replaces the CA, all certificates and the gossip keys under load. There
// must be no election and no failed write.
func TestRotationUnderLoad(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, clustertest.Options{OnDisk: true, TLS: true, Configure: func(_ int, c *cluster.Config) {
		c.FastKeys()
		c.RaftMultiplier = 20 // only the rotation may cause an election, not a busy machine
	}})
	leader := c.Leader()
	settled(t, c, 3)
	term := leader.Node.Status(t.Context()).GetTerm()
	l := startLoad(t, c)
	l.more(t, 30)

	old, next := c.CA, c.NewCA(clustertest.ClusterName)
	both := slices.Concat(old.Pair.Cert, next.Pair.Cert)
	each := func(f func(p *clustertest.Peer)) {
		for _, p := range c.Peers {
			f(p)
		}
	}
	// taken waits until a peer accepts, or no longer accepts, a client of that CA.
	taken := func(p *clustertest.Peer, ca *issue.CA, want bool) {
		pair := clientPair(t, ca, "probe")
		clustertest.Eventually(t, 30*time.Second, fmt.Sprintf("%s to accept the CA: %t", p.ID, want), func() error {
			cc := dialAs(t, c, p, pair)
			defer cc.Close()
			_, err := holdfastv1.NewClusterServiceClient(cc).GetClusterStatus(t.Context(), &holdfastv1.GetClusterStatusRequest{})
			if (err == nil) != want {
				return fmt.Errorf("%w", err)
			}
			return nil
		})
	}
	each(func(p *clustertest.Peer) { c.Trust(p, both); taken(p, next, true) })
	l.more(t, 30)
	each(func(p *clustertest.Peer) { c.Certify(p, next, clustertest.ClusterName, both); l.more(t, 10) })
	l.more(t, 30)
	each(func(p *clustertest.Peer) { c.Trust(p, next.Pair.Cert); taken(p, old, false) })
	l.more(t, 30)

	key, newKey := c.ReadGossipKey(c.Peers[0]), clustertest.GossipKey()
	for _, keys := range []string{key + newKey, newKey + key, newKey} {
		each(func(p *clustertest.Peer) { c.WriteFile(c.GossipKeyFile(p), []byte(keys)); l.more(t, 10) })
		time.Sleep(200 * time.Millisecond) // sleep: peers reload every 50 ms, and no event reports it
		settled(t, c, 3)
	}
	l.more(t, 30)
	if got := leader.Node.Status(t.Context()).GetTerm(); got != term || c.Leader() != leader {
		t.Errorf("term: got %d, want %d, without an election", got, term)
	}
	l.stop()
	t.Logf("%d writes", l.writes.Load())

	// The new files must be in use: a peer that has only these works with the others, also as the
	// next leader.
	c.CA = next
	c.Kill(leader)
	c.Leader()
	c.Restart(leader)
	settled(t, c, 3)
	for _, p := range c.Peers {
		if err := register(t.Context(), p, "after-"+p.ID); err != nil {
			t.Errorf("write through %s: %v", p.ID, err)
		}
	}
}
