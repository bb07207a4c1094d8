package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/cluster/clustertest"
	"github.com/holdfast-metal/holdfast/cluster/outcome"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// settled blocks until every running peer is a live voter, as seen by every running peer.
func settled(t *testing.T, c *clustertest.Cluster, voters int) {
	t.Helper()
	clustertest.Eventually(t, time.Minute, fmt.Sprintf("%d voters", voters), func() error {
		for _, p := range c.Peers {
			if !p.Up() {
				continue
			}
			n := 0
			for _, s := range p.Node.Status(t.Context()).GetPeers() {
				if s.GetSuffrage() == "voter" && s.GetAlive() {
					n++
				}
			}
			if n != voters {
				return fmt.Errorf("%s sees %d", p.ID, n)
			}
		}
		return nil
	})
}

func register(ctx context.Context, p *clustertest.Peer, id string) error {
	_, err := p.Machines().RegisterMachine(ctx,
		&holdfastv1.RegisterMachineRequest{Machine: &holdfastv1.Machine{MachineId: id}})
	return err
}

func get(ctx context.Context, p *clustertest.Peer, id string) error {
	m, err := p.Machines().GetMachine(ctx, &holdfastv1.GetMachineRequest{MachineId: id})
	if err == nil && m.GetMachineId() != id {
		err = fmt.Errorf("got machine %q, want %q", m.GetMachineId(), id)
	}
	return err
}

// calm configures peers to tolerate a busy machine for some seconds, so that only the test causes
// elections.
func calm(_ int, c *cluster.Config) { c.RaftMultiplier = calmMultiplier }

const calmMultiplier = 6

func TestClusterForms(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, clustertest.Options{Configure: calm})
	leader := c.Leader()
	settled(t, c, 3)
	id := leader.FSM.View().Meta().GetClusterId()
	if id == "" {
		t.Fatal("got no cluster id")
	}
	for _, p := range c.Peers {
		clustertest.Eventually(t, 10*time.Second, "the same cluster everywhere", func() error {
			if got := p.FSM.View().Meta().GetClusterId(); got != id {
				return fmt.Errorf("%s has %q, want %q", p.ID, got, id)
			}
			if got := len(p.FSM.View().Peers()); got != 3 {
				return fmt.Errorf("%s has %d peer records, want 3", p.ID, got)
			}
			return nil
		})
	}
	var st *holdfastv1.ClusterStatus
	clustertest.Eventually(t, 20*time.Second, "every peer to vote", func() error { // each answers within half a second
		st = c.Peers[0].Node.Status(t.Context())
		if got, want := st.GetFailureTolerance(), int32(1); got != want {
			return fmt.Errorf("failure tolerance: got %d, want %d", got, want)
		}
		return nil
	})
	if got, want := st.GetLeader(), leader.ID; got != want {
		t.Errorf("leader in the status: got %s, want %s", got, want)
	}
	if got, want := leader.Node.Role(), "leader"; got != want {
		t.Errorf("role: got %s, want %s", got, want)
	}
	// A killed peer does not count, even if gossip still considers it alive.
	killed := c.Followers(leader)[0]
	c.Kill(killed)
	if got := leader.Node.Status(t.Context()).GetFailureTolerance(); got != 0 {
		t.Errorf("failure tolerance right after a kill: got %d, want 0", got)
	}
	clustertest.Eventually(t, 20*time.Second, "since when the killed peer is away, and what to do", func() error {
		for _, p := range leader.Node.Status(t.Context()).GetPeers() {
			if away := p.GetId() == killed.ID; away != (p.GetAwaySince() != nil) ||
				away != strings.Contains(p.GetNext(), "holdfast operator raft remove-peer "+p.GetId()) {
				return fmt.Errorf("got %v", p)
			}
		}
		return nil
	})
}

// A peer that lost its data stays a voter of the configuration for a while but grants no vote.
// Wiping another peer meanwhile would lose the majority.
func TestWipedPeerDoesNotCountAsVoter(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, clustertest.Options{})
	leader := c.Leader()
	settled(t, c, 3)
	wiped := c.Followers(leader)[0]
	clustertest.Eventually(t, 20*time.Second, "every peer to vote", func() error {
		if err := wiped.Node.Votes(); err != nil {
			return err
		}
		if got := leader.Node.Status(t.Context()).GetFailureTolerance(); got != 1 {
			return fmt.Errorf("failure tolerance: got %d, want 1", got)
		}
		return nil
	})
	wiped.Node.Expel()
	for _, p := range c.Peers {
		st := p.Node.Status(t.Context())
		if got := st.GetFailureTolerance(); got != 0 {
			t.Errorf("failure tolerance at %s: got %d, want 0", p.ID, got)
		}
		for _, s := range st.GetPeers() {
			if got, want := s.GetMayVote(), s.GetId() != wiped.ID; got != want {
				t.Errorf("may-vote of %s at %s: got %v, want %v", s.GetId(), p.ID, got, want)
			}
		}
	}
	if wiped.Node.Votes() == nil {
		t.Errorf("%s: got a report that it votes", wiped.ID)
	}
}

// A restarted peer is ready only once it has applied its log. If another peer were stopped before
// that, all calls would wait.
func TestRestartedPeerIsReadyWithLogApplied(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, clustertest.Options{OnDisk: true})
	leader := c.Leader()
	settled(t, c, 3)
	for _, p := range c.Peers {
		clustertest.Eventually(t, 20*time.Second, "every peer to vote", p.Node.Votes)
	}
	back := c.Followers(leader)[0]
	for _, p := range c.Peers {
		c.Kill(p)
	}
	c.Restart(back)
	// Without a leader, the peer does not know the committed entries of its log.
	if err := back.Node.Votes(); err == nil {
		t.Error("got a vote of a peer that has applied nothing")
	}
	c.Restart(leader)
	clustertest.Eventually(t, 20*time.Second, "the peer to vote again", back.Node.Votes)
}

// TestAckingPeer checks that only a peer with the leader's term acknowledges, and only to the
// leader (decision 0020).
func TestAckingPeer(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, clustertest.Options{})
	leader := c.Leader()
	settled(t, c, 3)
	follower := c.Followers(leader)[0]
	term := leader.Node.Term()
	for _, tt := range []struct {
		name string
		at   *clustertest.Peer
		term uint64
		want string
	}{
		{"term of the leader", leader, term, follower.ID},
		{"older term", leader, term - 1, ""},
		{"newer term", leader, term + 1, ""},
		{"none", leader, 0, ""},
		{"sent to a follower", follower, term, ""},
	} {
		if got := tt.at.Node.AckingPeer(t.Context(), follower.ID, tt.term); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestWriteAndReadAnywhere(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, clustertest.Options{Configure: calm})
	leader := c.Leader()
	if _, err := leader.Node.Apply(t.Context(), clustertest.Register("direct")); err != nil {
		t.Fatalf("apply on the leader: %v", err)
	}
	for round := range 20 {
		for _, writer := range c.Peers {
			id := fmt.Sprintf("m-%d-%s", round, writer.ID)
			if err := register(t.Context(), writer, id); err != nil {
				t.Fatalf("write through %s: %v", writer.ID, err)
			}
			for _, reader := range c.Peers {
				if err := get(t.Context(), reader, id); err != nil {
					t.Fatalf("read through %s after a write through %s: %v", reader.ID, writer.ID, err)
				}
				v, err := reader.Node.View(t.Context())
				if err != nil {
					t.Fatalf("view on %s: %v", reader.ID, err)
				}
				if _, ok := v.Machine(id); !ok {
					t.Fatalf("view on %s: got no acknowledged machine", reader.ID)
				}
			}
		}
	}
	follower := c.Followers(leader)[0]
	_, err := follower.Node.Apply(t.Context(), clustertest.Register("nowhere"))
	var out *outcome.Error
	if !errors.As(err, &out) || out.Outcome != outcome.NotApplied || out.Leader != leader.ID {
		t.Errorf("apply on a follower: got %v, want not applied with leader %s", err, leader.ID)
	}
}

// inTime makes a call with a deadline and retries until the answer comes before it. A busy
// machine may answer late, while a peer that leaves no time for its answer always does.
func inTime(t *testing.T, deadline time.Duration, call func(context.Context) error) (err error) {
	t.Helper()
	clustertest.Eventually(t, 30*time.Second, fmt.Sprintf("an answer within %v", deadline), func() error {
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		defer cancel()
		if err = call(ctx); status.Code(err) == codes.DeadlineExceeded {
			return err
		}
		return nil
	})
	return err
}
