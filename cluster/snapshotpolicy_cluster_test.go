package cluster_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/cluster/clustertest"
)

// Peers take snapshots by the bytes of their log, long before Raft would by its entries, and one
// that starts applies what came since.
func TestLargeEntriesAreWorthSnapshots(t *testing.T) {
	t.Parallel()
	const stored = 200 // entries that are in a snapshot; Raft's own configurations and empty entries are few
	c := clustertest.Start(t, clustertest.Options{OnDisk: true, Configure: func(i int, c *cluster.Config) {
		calm(i, c)
		c.SnapshotThreshold = 1 << 30
		c.Weigh(10_000)
	}})
	settled(t, c, 3)
	w := startWriter(t, c.Peers...)
	for _, p := range c.Peers {
		clustertest.Eventually(t, 60*time.Second, "a snapshot that the bytes were worth", func() error {
			entries, bytes, _ := p.Node.LogSince()
			if applied := int64(p.FSM.Applied()); applied-entries < stored {
				return fmt.Errorf("%s has applied %d entries, of which %d with %d bytes are in no snapshot", p.ID, applied,
					entries, bytes)
			}
			return nil
		})
	}
	w.check(t, c.Peers...) // nobody writes any more
	back := c.Peers[0]
	before := int64(back.FSM.Applied())
	c.Kill(back)
	c.Restart(back)
	settled(t, c, 3)
	clustertest.Eventually(t, 20*time.Second, "the peer is back", back.Node.Votes)
	if entries, _, _ := back.Node.LogSince(); entries > before-stored/2 {
		t.Errorf("started, it has applied %d entries of %d, as if there were no snapshot", entries, before)
	}
}
