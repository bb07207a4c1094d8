package cluster_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/clustertest"
)

// A leader that leaves transfers its leadership first. If its successor loses the election, it
// leads again, and must then retry instead of stopping as a member. Found by the fault "membership"
// of test/robustness.
func TestLeaveOfReelectedLeader(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, clustertest.Options{})
	settled(t, c, 3)
	old := c.Leader()
	if err := old.Node.Leave(t.Context()); err != nil {
		t.Fatalf("leave while leading: %v", err)
	}
	rest := c.Followers(old)
	clustertest.Eventually(t, 20*time.Second, "two members at the other peers", func() error {
		for _, p := range rest {
			if _, ok := p.FSM.View().Peer(old.ID); ok {
				return errors.New(p.ID + " still has its record")
			}
		}
		return nil
	})
}
