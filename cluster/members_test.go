package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/cluster/clustertest"
	"github.com/holdfast-metal/holdfast/cluster/outcome"
	"github.com/holdfast-metal/holdfast/fsm"
)

func admittedSoon(t *testing.T, p *clustertest.Peer) {
	t.Helper()
	clustertest.Eventually(t, 20*time.Second, p.ID+" to be admitted", func() error {
		if !p.Node.Admitted() {
			return errors.New("not admitted")
		}
		return nil
	})
}

// suffrage returns a peer's suffrage as another peer sees it.
func suffrage(t *testing.T, of, p *clustertest.Peer) string {
	t.Helper()
	for _, s := range of.Node.Status(t.Context()).GetPeers() {
		if s.GetId() == p.ID {
			return s.GetSuffrage()
		}
	}
	return "none"
}

// bold is a vote request that any admitted peer would grant.
func bold() raft.RequestVoteRequest {
	return raft.RequestVoteRequest{Term: 1 << 40, LastLogIndex: 1 << 40, LastLogTerm: 1 << 40, LeadershipTransfer: true}
}

func TestWipedPeerVotesAfterCatchUp(t *testing.T) {
	t.Parallel()
	var hang [3]atomic.Bool
	free := make(chan struct{})
	c := clustertest.Start(t, clustertest.Options{OnDisk: true, Configure: func(i int, c *cluster.Config) {
		c.WrapLogs(func(l raft.LogStore) raft.LogStore { return hanging{l, &hang[i], free} })
	}})
	leader := c.Leader()
	settled(t, c, 3)
	rest := c.Followers(leader)
	wiped, other := rest[0], rest[1]
	if !wiped.Node.Admitted() {
		t.Error("founder: got not admitted")
	}
	if err := register(t.Context(), leader, "before"); err != nil {
		t.Fatalf("write: %v", err)
	}
	old, _ := leader.FSM.View().Peer(wiped.ID)

	c.Kill(wiped)
	c.Wipe(wiped)
	for i, p := range c.Peers {
		hang[i].Store(p == wiped) // it cannot catch up yet
	}
	c.Restart(wiped)
	clustertest.Eventually(t, 20*time.Second, "the peer to lose its vote", func() error {
		if got := suffrage(t, leader, wiped); got != "nonvoter" {
			return fmt.Errorf("suffrage is %s", got)
		}
		return nil
	})
	time.Sleep(500 * time.Millisecond) // sleep: nothing must happen for longer than an admission takes
	if got := suffrage(t, leader, wiped); got != "nonvoter" || wiped.Node.Admitted() || wiped.Node.AskVote(bold()) {
		t.Errorf("peer without data: got %s, admitted: %t, want no vote", got, wiped.Node.Admitted())
	}
	close(free)
	settled(t, c, 3)
	admittedSoon(t, wiped)
	now, _ := c.Leader().FSM.View().Peer(wiped.ID)
	if now.GetInstance() == old.GetInstance() {
		t.Error("got the record of the lost data directory")
	}
	// It votes again: without the leader, the other two elect one.
	settled(t, c, 3)
	w := startWriter(t, wiped, other)
	c.Kill(c.Leader())
	at := w.count()
	waitCount(t, w, at+10)
	for _, p := range []*clustertest.Peer{wiped, other} {
		if p.Up() {
			w.check(t, p)
			if err := get(t.Context(), p, "before"); err != nil {
				t.Errorf("read on %s: %v", p.ID, err)
			}
		}
	}
}

func TestWipedPeerDoesNotVoteWithoutMajority(t *testing.T) {
	t.Parallel()
	// The lease of the first leader, p1, must last from the kill to the restart, even on a
	// busy machine. The others elect sooner.
	c := clustertest.Start(t, clustertest.Options{OnDisk: true, Configure: func(i int, c *cluster.Config) {
		if c.RaftMultiplier = 4; i == 0 {
			c.RaftMultiplier = 10
		}
	}})
	leader := c.Leader()
	settled(t, c, 3)
	rest := c.Followers(leader)
	wiped, other := rest[0], rest[1]
	c.Kill(other)
	c.Kill(wiped)
	c.Wipe(wiped)
	c.Restart(wiped)
	// The leader is no majority without it. Demoting it would leave the leader alone.
	for until := time.Now().Add(2 * time.Second); time.Now().Before(until); {
		if err := register(t.Context(), leader, "meanwhile"); err != nil {
			t.Fatalf("write with a wiped peer: %v", err)
		}
	}
	if got := suffrage(t, leader, wiped); got != "voter" {
		t.Errorf("suffrage of the last follower: got %s", got)
	}
	// It accepts entries, but may have lost acknowledged ones. It must not elect a leader.
	if wiped.Node.Admitted() || wiped.Node.AskVote(bold()) {
		t.Error("peer without data: got a granted vote")
	}
	c.Kill(leader)
	c.Restart(other)
	clustertest.Eventually(t, 20*time.Second, "the two peers to see each other", func() error {
		for _, p := range wiped.Node.Status(t.Context()).GetPeers() {
			if p.GetId() == other.ID && p.GetAlive() && p.GetError() == "" {
				return nil
			}
		}
		return errors.New("not yet")
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := register(ctx, other, "lost"); err == nil {
		t.Error("got a leader without acknowledged entries, elected by a peer without data")
	}
	// With the third peer the cluster is complete.
	c.Restart(leader)
	admittedSoon(t, wiped)
	settled(t, c, 3)
	for _, p := range c.Peers {
		if err := get(t.Context(), p, "meanwhile"); err != nil {
			t.Errorf("read on %s: %v", p.ID, err)
		}
	}
}

func TestFourthPeerJoins(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, clustertest.Options{
		Peers:     4,
		Configure: func(_ int, c *cluster.Config) { c.BootstrapExpect = 3 },
		Stopped:   func(i int) bool { return i == 3 },
	})
	leader := c.Leader()
	settled(t, c, 3)
	c.Restart(c.Peers[3])
	settled(t, c, 4)
	if got, want := c.Peers[3].FSM.View().Meta().GetClusterId(), leader.FSM.View().Meta().GetClusterId(); got != want {
		t.Errorf("cluster of the fourth peer: got %s, want %s", got, want)
	}
}

func TestMorePeersThanExpectedFormOneCluster(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, clustertest.Options{
		Peers:     5,
		Configure: func(_ int, c *cluster.Config) { c.BootstrapExpect = 3 },
	})
	leader := c.Leader()
	settled(t, c, 5)
	for _, p := range c.Peers {
		if got, want := p.FSM.View().Meta().GetClusterId(), leader.FSM.View().Meta().GetClusterId(); got != want {
			t.Errorf("cluster of %s: got %s, want %s", p.ID, got, want)
		}
	}
}

func TestNoSecondCluster(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, clustertest.Options{OnDisk: true})
	leader := c.Leader()
	settled(t, c, 3)
	id := leader.FSM.View().Meta().GetClusterId()
	// A majority loses its data while the third peer runs. They must not form a new
	// cluster, and they cannot continue.
	lost := c.Followers(leader)
	for _, p := range lost {
		c.Kill(p)
		c.Wipe(p)
	}
	c.Kill(leader)
	c.Restart(leader)
	for _, p := range lost {
		c.Restart(p)
	}
	clustertest.Eventually(t, 30*time.Second, "the peers to see each other", func() error {
		for _, p := range c.Peers {
			alive := 0
			for _, s := range p.Node.Status(t.Context()).GetPeers() {
				if s.GetAlive() {
					alive++
				}
			}
			if alive != 3 {
				return fmt.Errorf("%s sees %d", p.ID, alive)
			}
		}
		return nil
	})
	time.Sleep(time.Second) // sleep: nothing must happen for much longer than forming a cluster takes
	for _, p := range c.Peers {
		if got := p.FSM.View().Meta().GetClusterId(); got != "" && got != id {
			t.Errorf("%s: got a second cluster %s", p.ID, got)
		}
		if p.Node.Ready() {
			t.Errorf("%s: got a leader although a majority has lost its data", p.ID)
		}
	}
}

func TestLeaveOnStop(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, clustertest.Options{OnDisk: true, Configure: func(i int, c *cluster.Config) {
		calm(i, c)
		c.LeaveOnStop = true
	}})
	leader := c.Leader()
	settled(t, c, 3)
	if err := c.Stop(leader); err != nil { // it transfers the leadership before it leaves
		t.Fatalf("stop: %v", err)
	}
	settled(t, c, 2)
	next := c.Followers(nil)[0]
	clustertest.Eventually(t, 30*time.Second, "the removal of the record", func() error {
		if _, ok := next.FSM.View().Peer(leader.ID); ok {
			return fmt.Errorf("%s is still recorded", leader.ID)
		}
		return nil
	})
	// It may return.
	c.Restart(leader)
	settled(t, c, 3)
}

func TestOldPeerIsRefused(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, clustertest.Options{
		Peers: 4,
		Configure: func(i int, c *cluster.Config) {
			c.BootstrapExpect = 3
			if i == 3 {
				c.MakeOld()
			}
		},
		Stopped: func(i int) bool { return i == 3 },
	})
	leader := c.Leader()
	settled(t, c, 3)
	c.Restart(c.Peers[3])
	clustertest.Eventually(t, 30*time.Second, "the leader to see the old peer", func() error {
		for _, p := range leader.Node.Status(t.Context()).GetPeers() {
			if p.GetId() == "p4" && p.GetAlive() {
				return nil
			}
		}
		return fmt.Errorf("not seen")
	})
	time.Sleep(500 * time.Millisecond) // sleep: nothing must happen for longer than a join takes
	for _, p := range leader.Node.Status(t.Context()).GetPeers() {
		if p.GetId() == "p4" && p.GetSuffrage() != "none" {
			t.Errorf("old peer: got suffrage %s, want none", p.GetSuffrage())
		}
	}
}

func TestUnknownCommandStopsThePeer(t *testing.T) {
	c := clustertest.Start(t, clustertest.Options{Peers: 1})
	leader := c.Leader()
	cmd := clustertest.Register("m")
	cmd.FeatureLevel = fsm.FeatureLevel + 1
	_, err := leader.Node.Apply(t.Context(), cmd)
	var out *outcome.Error
	if !errors.As(err, &out) || out.Outcome != outcome.Unknown {
		t.Errorf("apply an unknown command: got %v, want outcome unknown", err)
	}
	if err := c.Wait(leader, 30*time.Second); err == nil || !strings.Contains(err.Error(), "upgrade it") {
		t.Errorf("run: got %v, want an error with a remedy", err)
	}
}

func TestPeerOfAnotherClusterIsKeptOut(t *testing.T) {
	t.Parallel()
	a := clustertest.Start(t, clustertest.Options{Peers: 1, OnDisk: true})
	b := clustertest.Start(t,
		clustertest.Options{Peers: 1, OnDisk: true, Configure: func(_ int, c *cluster.Config) { c.PeerID = "q1" }})
	a.Leader()
	bp := b.Peers[0]
	clustertest.Eventually(t, 30*time.Second, "the second cluster to form", func() error {
		if !bp.Node.Ready() {
			return fmt.Errorf("not formed")
		}
		return nil
	})
	idA, idB := a.Peers[0].FSM.View().Meta().GetClusterId(), bp.FSM.View().Meta().GetClusterId()
	if err := b.Stop(bp); err != nil {
		t.Fatalf("stop: %v", err)
	}
	before, err := os.ReadFile(filepath.Join(b.DataDir(bp), "identity.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.TryStart(bp, a.Peers[0].Node.GossipAddr()); err != nil {
		t.Fatalf("start: %v", err)
	}
	err = b.Wait(bp, 30*time.Second)
	if err == nil {
		t.Fatal("peer with data of another cluster: got it running")
	}
	for _, want := range []string{idA, idB, a.Peers[0].Node.GossipAddr(), "p1", "q1"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error: want cluster %s in it, got %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("error: want one line, got %v", err)
	}
	after, err := os.ReadFile(filepath.Join(b.DataDir(bp), "identity.json"))
	if err != nil {
		t.Fatal(err)
	}
	if string(before) != string(after) {
		t.Errorf("identity: got %s, want %s", after, before)
	}
	if !a.Peers[0].Node.Ready() {
		t.Error("got a change of the existing cluster")
	}
	if err := b.TryStart(bp); err != nil {
		t.Errorf("start without joining the other cluster: %v", err)
	}
}

// lines is a writer that calls itself with each log line.
type lines func(string)

func (f lines) Write(p []byte) (int, error) {
	f(string(p))
	return len(p), nil
}

// TestWorkingPeerIgnoresAnotherCluster starts a peer of another cluster at an address that a
// working cluster of one peer joins.
func TestWorkingPeerIgnoresAnotherCluster(t *testing.T) {
	t.Parallel()
	var refusals atomic.Int64
	foreign := clustertest.Start(t, clustertest.Options{Peers: 1, OnDisk: true})
	fp := foreign.Leader()
	if err := foreign.Stop(fp); err != nil {
		t.Fatalf("stop: %v", err)
	}
	own := clustertest.Start(t, clustertest.Options{Peers: 1, OnDisk: true, Configure: func(_ int, c *cluster.Config) {
		c.PeerID = "q1"
		c.Logger = slog.New(slog.NewTextHandler(lines(func(line string) {
			if strings.Contains(line, "gossip with another cluster refused") {
				refusals.Add(1)
			}
		}), nil))
	}})
	p := own.Peers[0]
	ready := func() error {
		if !p.Node.Ready() {
			return errors.New(p.Node.Role())
		}
		return nil
	}
	clustertest.Eventually(t, 20*time.Second, "the peer to lead", ready)
	if err := own.Stop(p); err != nil {
		t.Fatalf("stop: %v", err)
	}
	if err := own.TryStart(p, foreign.Gossip(fp)); err != nil {
		t.Fatalf("start: %v", err)
	}
	clustertest.Eventually(t, 20*time.Second, "the peer to lead with its data", ready)
	foreign.Restart(fp)
	clustertest.Eventually(t, 20*time.Second, "the peer to refuse the other cluster", func() error {
		if refusals.Load() == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	if err := ready(); err != nil {
		t.Errorf("after a peer of another cluster has started: %v, want the peer to lead", err)
	}
}
