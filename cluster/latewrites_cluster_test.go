package cluster_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/cluster/clustertest"
)

// lastEntry is a log store that notes its last entry.
type lastEntry struct {
	raft.LogStore
	index *atomic.Uint64
}

func (l lastEntry) StoreLogs(logs []*raft.Log) error {
	err := l.LogStore.StoreLogs(logs)
	if err == nil {
		l.index.Store(logs[len(logs)-1].Index)
	}
	return err
}

// TestLeaderSendsWhileItWrites checks that followers get and store an entry while the leader's disk
// hangs, and that nobody commits it before the leader has stored it, too.
func TestLeaderSendsWhileItWrites(t *testing.T) {
	t.Parallel()
	var hang [3]atomic.Bool
	var last [3]atomic.Uint64
	free := make(chan struct{})
	c := clustertest.Start(t, clustertest.Options{Configure: func(i int, c *cluster.Config) {
		c.NoOpInterval = time.Hour
		c.WrapLogs(func(l raft.LogStore) raft.LogStore { return hanging{lastEntry{l, &last[i]}, &hang[i], free} })
	}})
	leader := c.Leader()
	settled(t, c, 3)
	var stored *atomic.Uint64 // the leader's last entry
	for i, p := range c.Peers {
		if p == leader {
			hang[i].Store(true)
			stored = &last[i]
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- register(ctx, leader, "late") }()
	clustertest.Eventually(t, 10*time.Second, "both followers to store the entry", func() error {
		for i, p := range c.Peers {
			if got := last[i].Load(); p != leader && got <= stored.Load() {
				return fmt.Errorf("%s has entries up to %d", p.ID, got)
			}
		}
		return nil
	})
	time.Sleep(300 * time.Millisecond) // sleep: nothing must happen for longer than a commit takes
	for _, p := range c.Peers {
		if got, most := p.FSM.Applied(), stored.Load(); got > most {
			t.Errorf("%s applied entry %d while the leader has stored %d", p.ID, got, most)
		}
	}
	if len(done) > 0 {
		t.Error("write with the leader's disk hanging: got an answer")
	}
	close(free)
	if err := <-done; err != nil {
		t.Errorf("write: %v", err)
	}
}

// TestSingleVoterWritesInTime checks that a peer alone commits nothing that is not on its disk.
func TestSingleVoterWritesInTime(t *testing.T) {
	t.Parallel()
	var hang atomic.Bool
	free := make(chan struct{})
	c := clustertest.Start(t, clustertest.Options{Peers: 1, Configure: func(_ int, c *cluster.Config) {
		c.NoOpInterval = time.Hour
		c.WrapLogs(func(l raft.LogStore) raft.LogStore { return hanging{l, &hang, free} })
	}})
	leader := c.Leader()
	hang.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := register(ctx, leader, "late"); err == nil {
		t.Errorf("write with a hanging disk: got %v, want an error", err)
	}
	close(free)
}
