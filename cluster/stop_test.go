package cluster_test

import (
	"testing"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/cluster/clustertest"
)

// A leader that was just replaced under load, followed by another new leader, can be stopped. In a
// quarter of such stops, Raft once did not shut down, because a replication was stuck after its
// follower had a newer term.
func TestStopAfterLostLeaderships(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, clustertest.Options{Configure: func(_ int, c *cluster.Config) { c.RaftMultiplier = 0.5 },
		OnDisk: true})
	settled(t, c, 3)
	for round := range 10 {
		w := startWriter(t, c.Peers...)
		last := c.Leader()
		for range 3 {
			c.Followers(last)[round%2].Node.CallElection() // the peer may lose
			last = c.Leader()
		}
		if err := c.Stop(last); err != nil {
			t.Fatalf("stop %d: %v", round+1, err)
		}
		w.stop()
		c.Restart(last)
		settled(t, c, 3)
	}
}
