package cluster_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/clustertest"
)

// A peer that leaves hands its leadership over first. If its successor does not win, it
// leads again. It must then retry, and not remain a member that has stopped. Found by the
// fault "membership" of test/robustness.
func TestLeaveOfPeerThatLeadsAgain(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, clustertest.Options{})
	settled(t, c, 3)
	old := c.Leader()
	if err := old.Node.Leave(t.Context()); err != nil {
		t.Fatalf("leave while leading: %v", err)
	}
	rest := c.Followers(old)
	clustertest.Eventually(t, 20*time.Second, "the others know two members", func() error {
		for _, p := range rest {
			if _, ok := p.FSM.View().Peer(old.ID); ok {
				return errors.New(p.ID + " has it on record")
			}
		}
		return nil
	})
}
