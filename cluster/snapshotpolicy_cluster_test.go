package cluster_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/cluster/clustertest"
)

// Peers take snapshots by the size of their log, long before Raft would by the number of entries. A
// restarted peer applies only the entries after its snapshot.
func TestLargeLogTriggersSnapshot(t *testing.T) {
	t.Parallel()
	const stored = 200 // entries in a snapshot; Raft's own entries are few
	c := clustertest.Start(t, clustertest.Options{OnDisk: true, Configure: func(i int, c *cluster.Config) {
		calm(i, c)
		c.SnapshotThreshold = 1 << 30
		c.Weigh(10_000)
	}})
	settled(t, c, 3)
	w := startWriter(t, c.Peers...)
	for _, p := range c.Peers {
		clustertest.Eventually(t, 60*time.Second, "a snapshot triggered by bytes", func() error {
			entries, bytes, _ := p.Node.LogSince()
			if applied := int64(p.FSM.Applied()); applied-entries < stored {
				return fmt.Errorf("%s: %d applied entries, %d with %d bytes after the snapshot", p.ID, applied,
					entries, bytes)
			}
			return nil
		})
	}
	w.check(t, c.Peers...) // no more writes
	back := c.Peers[0]
	before := int64(back.FSM.Applied())
	c.Kill(back)
	c.Restart(back)
	settled(t, c, 3)
	clustertest.Eventually(t, 20*time.Second, "the peer to vote again", back.Node.Votes)
	if entries, _, _ := back.Node.LogSince(); entries > before-stored/2 {
		t.Errorf("applied after a restart: got %d entries of %d, want fewer because of the snapshot", entries, before)
	}
}
