package cluster_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/cluster/clustertest"
	"github.com/holdfast-metal/holdfast/fsm"
)

// reasonOf returns the reason of a refusal.
func reasonOf(err error) string {
	var e *fsm.Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return ""
}

// counted is a leader task that counts how many of it run.
type counted struct{ begun, ended chan struct{} }

func (c counted) Run(ctx context.Context, _ cluster.Term) error {
	c.begun <- struct{}{}
	<-ctx.Done()
	c.ended <- struct{}{}
	return nil
}

func TestKeepers(t *testing.T) {
	t.Parallel()
	task := counted{make(chan struct{}, 16), make(chan struct{}, 16)}
	c := clustertest.Start(t,
		clustertest.Options{Configure: calm, Tasks: func(int) []cluster.LeaderTask { return []cluster.LeaderTask{task} }})
	leader := c.Leader()
	settled(t, c, 3)
	rest := c.Followers(leader)
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	<-task.begun

	if err := rest[0].Node.Interlude(ctx, func(context.Context) error { return nil }); err == nil {
		t.Error("a follower's tasks were interrupted: it has none")
	}
	err := leader.Node.Interlude(ctx, func(ctx context.Context) error {
		select {
		case <-task.ended:
		default:
			t.Error("tasks run during a pause")
		}
		return register(ctx, leader, "meanwhile")
	})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-task.begun:
	case <-ctx.Done():
		t.Fatal("tasks have not restarted")
	}

	to := rest[1]
	if _, err := leader.Node.TransferTo(ctx, leader.ID); reasonOf(err) != "NOT_TRANSFERRED" {
		t.Errorf("hand over to itself: got %v, want NOT_TRANSFERRED", err)
	}
	if id, err := leader.Node.TransferTo(ctx, to.ID); err != nil || id != to.ID {
		t.Fatalf("hand over to %s: got %q, %v", to.ID, id, err)
	}
	leader = c.Leader()
	for id, want := range map[string]string{leader.ID: "PEER_LEADS", rest[0].ID: "PEER_ALIVE", "p9": "PEER_NOT_FOUND"} {
		if err := leader.Node.RemovePeer(ctx, id, false); reasonOf(err) != want {
			t.Errorf("remove %s: got %v, want %s", id, err, want)
		}
	}
	c.Kill(rest[0])
	if err := leader.Node.RemovePeer(ctx, rest[0].ID, false); err != nil {
		t.Errorf("remove a dead peer: %v", err)
	}
	clustertest.Eventually(t, 10*time.Second, "the peer is no member", func() error {
		if s := suffrage(t, leader, rest[0]); s != "none" {
			return errors.New("it is a " + s)
		}
		return nil
	})
	a, err := leader.Node.Autopilot(ctx)
	if err != nil || a.GetConfig().GetMinQuorum() != 3 || a.GetConfig().GetCleanupDeadServers() {
		t.Errorf("autopilot: got %v, %v, want its defaults: no cleanup, three voters at least", a, err)
	}
}

// TestRecover permanently loses two of three peers. The third begins a new cluster with
// everything that was acknowledged. A peer of the old cluster is refused, and wiped ones
// join.
func TestRecover(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, clustertest.Options{OnDisk: true})
	leader := c.Leader()
	settled(t, c, 3)
	if err := register(t.Context(), leader, "kept"); err != nil {
		t.Fatal(err)
	}
	last := c.Followers(leader)[0]
	clustertest.Eventually(t, 10*time.Second, "the follower has it", func() error {
		if last.FSM.Applied() < leader.FSM.Applied() {
			return errors.New("not yet")
		}
		return nil
	})
	log := slog.New(slog.DiscardHandler)
	if _, err := cluster.Recover(c.DataDir(last), true, log); err == nil ||
		!strings.Contains(err.Error(), "is in use by another process") {
		t.Errorf("recover a peer that runs: got %v, want a refusal", err)
	}
	for _, p := range c.Peers {
		c.Kill(p)
	}
	dry, err := cluster.Recover(c.DataDir(last), true, log)
	if err != nil || dry.NewClusterID != "" || len(dry.Servers) != 3 || dry.Machines != 1 {
		t.Fatalf("dry run: got %+v, %v, want three servers, a machine and no change", dry, err)
	}
	done, err := cluster.Recover(c.DataDir(last), false, log)
	if err != nil || done.NewClusterID == dry.ClusterID || done.LastIndex != dry.LastIndex {
		t.Fatalf("recover: got %+v, %v", done, err)
	}
	if _, err := cluster.Recover(t.TempDir(), true, log); err == nil ||
		!strings.Contains(err.Error(), "not the data directory of a peer") {
		t.Errorf("recover from an empty directory: got %v", err)
	}
	c.Restart(last)
	clustertest.Eventually(t, 20*time.Second, "it leads alone", func() error {
		if !last.Node.Ready() {
			return errors.New(last.Node.Role())
		}
		return nil
	})
	meta := last.FSM.View().Meta()
	if meta.GetClusterId() != done.NewClusterID || meta.GetEpoch() <= dry.LastTerm {
		t.Errorf("got cluster %s in epoch %d, want %s in one above %d", meta.GetClusterId(), meta.GetEpoch(),
			done.NewClusterID, dry.LastTerm)
	}
	if _, ok := last.FSM.View().Machine("kept"); !ok {
		t.Error("acknowledged data is lost")
	}
	old := leader
	if err := c.TryStart(old, c.Gossip(last)); err == nil {
		if err := c.Wait(old, 20*time.Second); err == nil {
			t.Error("a peer with data of the old cluster runs beside the new one")
		}
	}
	c.Wipe(old)
	c.Restart(old)
	admittedSoon(t, old)
	if err := register(t.Context(), last, "after"); err != nil {
		t.Fatal(err)
	}
}
