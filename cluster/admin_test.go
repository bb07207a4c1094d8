package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/cluster/clustertest"
	"github.com/holdfast-metal/holdfast/cluster/leader"
	"github.com/holdfast-metal/holdfast/fsm"
)

// reasonOf returns the reason of a refusal.
func reasonOf(err error) string {
	if e, ok := errors.AsType[*fsm.Error](err); ok {
		return e.Reason
	}
	return ""
}

// counted is a leader task that reports each start and end.
type counted struct{ begun, ended chan struct{} }

func (c counted) Run(ctx context.Context, _ leader.Term) error {
	c.begun <- struct{}{}
	<-ctx.Done()
	c.ended <- struct{}{}
	return nil
}

func TestAdmin(t *testing.T) {
	t.Parallel()
	task := counted{make(chan struct{}, 16), make(chan struct{}, 16)}
	c := clustertest.Start(t,
		clustertest.Options{Configure: calm, Work: clustertest.Leading(task)})
	leader := c.Leader()
	settled(t, c, 3)
	rest := c.Followers(leader)
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	<-task.begun

	if err := rest[0].Node.PauseTasks(ctx, func(context.Context) error { return nil }); err == nil {
		t.Error("interrupt the tasks of a follower: got no error")
	}
	err := leader.Node.PauseTasks(ctx, func(ctx context.Context) error {
		select {
		case <-task.ended:
		default:
			t.Error("got running tasks during a pause")
		}
		return register(ctx, leader, "meanwhile")
	})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-task.begun:
	case <-ctx.Done():
		t.Fatal("got no restart of the tasks after the pause")
	}

	to := rest[1]
	if _, err := leader.Node.TransferTo(ctx, leader.ID); reasonOf(err) != "NOT_TRANSFERRED" {
		t.Errorf("transfer to itself: got %v, want NOT_TRANSFERRED", err)
	}
	if id, err := leader.Node.TransferTo(ctx, to.ID); err != nil || id != to.ID {
		t.Fatalf("transfer to %s: got %q, %v", to.ID, id, err)
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
	clustertest.Eventually(t, 10*time.Second, "the removal of the peer", func() error {
		if s := suffrage(t, leader, rest[0]); s != "none" {
			return errors.New("suffrage is " + s)
		}
		return nil
	})
	a, err := leader.Node.Autopilot(ctx)
	if err != nil || a.GetConfig().GetMinQuorum() != 3 || a.GetConfig().GetCleanupDeadServers() {
		t.Errorf("autopilot: got %v, %v, want the defaults", a, err)
	}
}

// TestRecover permanently loses two of three peers. The third one begins a new cluster with all
// acknowledged data, although its directory has lost its vote because it is old. It refuses a peer
// of the old cluster, and wiped peers join it.
func TestRecover(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, clustertest.Options{OnDisk: true})
	leader := c.Leader()
	settled(t, c, 3)
	if err := register(t.Context(), leader, "kept"); err != nil {
		t.Fatal(err)
	}
	last := c.Followers(leader)[0]
	clustertest.Eventually(t, 10*time.Second, "the follower to have the machine", func() error {
		if last.FSM.Applied() < leader.FSM.Applied() {
			return errors.New("not yet")
		}
		return nil
	})
	log := slog.New(slog.DiscardHandler)
	if _, err := cluster.Recover(c.DataDir(last), 0, true, log); err == nil ||
		!strings.Contains(err.Error(), "is in use by another process") {
		t.Errorf("recover a running peer: got %v, want a refusal", err)
	}
	for _, p := range c.Peers {
		c.Kill(p)
	}
	loseVote(t, c.DataDir(last), "peer p9 remembers more")
	dry, err := cluster.Recover(c.DataDir(last), 0, true, log)
	if err != nil || dry.Stale != "peer p9 remembers more" || dry.NewClusterID != "" ||
		len(dry.Servers) != 3 || dry.Machines != 1 {
		t.Fatalf("dry run: got %+v, %v, want three servers, a machine and no change", dry, err)
	}
	done, err := cluster.Recover(c.DataDir(last), 0, false, log)
	if err != nil || done.NewClusterID == dry.ClusterID || done.LastIndex != dry.LastIndex {
		t.Fatalf("recover: got %+v, %v", done, err)
	}
	if _, err := cluster.Recover(t.TempDir(), 0, true, log); err == nil ||
		!strings.Contains(err.Error(), "not the data directory of a peer") {
		t.Errorf("recover from an empty directory: got %v", err)
	}
	// A peer of the old cluster is already running, at an address that the recovered one joins.
	old := leader
	if err := c.TryStart(old, c.Gossip(last)); err != nil {
		t.Fatal(err)
	}
	c.Restart(last)
	clustertest.Eventually(t, 20*time.Second, "the peer to lead alone", func() error {
		if !last.Node.Ready() {
			return errors.New(last.Node.Role())
		}
		return nil
	})
	meta := last.FSM.View().Meta()
	if meta.GetClusterId() != done.NewClusterID || meta.GetEpoch() <= dry.LastTerm {
		t.Errorf("got cluster %s in epoch %d, want %s in an epoch above %d", meta.GetClusterId(), meta.GetEpoch(),
			done.NewClusterID, dry.LastTerm)
	}
	if _, ok := last.FSM.View().Machine("kept"); !ok {
		t.Error("got no acknowledged machine after recovery")
	}
	if err := c.Wait(old, 20*time.Second); err == nil || !strings.Contains(err.Error(), "belongs to cluster") {
		t.Errorf("peer with data of the old cluster: got %v, want it refused", err)
	}
	if !last.Node.Ready() {
		t.Error("got a recovered peer that stopped because of a peer of the old cluster")
	}
	c.Wipe(old)
	c.Restart(old)
	admittedSoon(t, old)
	if err := register(t.Context(), last, "after"); err != nil {
		t.Fatal(err)
	}
}

// TestRecoverBeforeAnEntry commits an entry that no peer can apply. A peer stops at it and
// says how to go on: it begins a new cluster with everything before the entry.
func TestRecoverBeforeAnEntry(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, clustertest.Options{OnDisk: true})
	leader := c.Leader()
	settled(t, c, 3)
	if err := register(t.Context(), leader, "kept"); err != nil {
		t.Fatal(err)
	}
	go func() { _ = leader.Node.ApplyBytes([]byte("\xff\xffnot a command")) }()
	ended := c.Wait(leader, 20*time.Second) // the others stop when they hear that it is committed
	if ended == nil {
		t.Fatal("got no error at an entry that cannot be applied")
	}
	_, advice, _ := strings.Cut(ended.Error(), "holdfast operator recover --before ")
	poison, err := strconv.ParseUint(advice, 10, 64)
	if err != nil {
		t.Fatalf("got %v, want the index of the entry in it", ended)
	}
	for _, p := range c.Peers {
		c.Kill(p)
	}
	log := slog.New(slog.DiscardHandler)
	for before, want := range map[uint64]string{
		0: "decode log entry " + advice, poison + 10: "leave out the entries from",
	} {
		_, err := cluster.Recover(c.DataDir(leader), before, true, log)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("recover before %d: got %v, want %q", before, err, want)
		}
	}
	dry, err := cluster.Recover(c.DataDir(leader), poison, true, log)
	if err != nil || dry.LastIndex != poison-1 || dry.Dropped == 0 || dry.Machines != 1 {
		t.Fatalf("dry run: got %+v, %v", dry, err)
	}
	if _, err := cluster.Recover(c.DataDir(leader), poison, false, log); err != nil {
		t.Fatal(err)
	}
	c.Restart(leader)
	clustertest.Eventually(t, 20*time.Second, "the peer to lead alone", func() error {
		if !leader.Node.Ready() {
			return errors.New(leader.Node.Role())
		}
		return nil
	})
	if err := register(t.Context(), leader, "after"); err != nil {
		t.Fatal(err)
	}
	if _, ok := leader.FSM.View().Machine("kept"); !ok {
		t.Error("got no acknowledged machine after recovery")
	}
}

// loseVote changes a directory as if it had been recognized as an old one.
func loseVote(t *testing.T, dir, why string) {
	t.Helper()
	file := filepath.Join(dir, "identity.json")
	b, err := os.ReadFile(file)
	rec := map[string]any{}
	if err == nil {
		err = json.Unmarshal(b, &rec)
	}
	rec["admitted"], rec["stale"], rec["instance"] = false, why, "later"
	if err == nil {
		b, err = json.Marshal(rec)
	}
	if err = errors.Join(err, os.WriteFile(file, b, 0o600)); err != nil {
		t.Fatal(err)
	}
}
