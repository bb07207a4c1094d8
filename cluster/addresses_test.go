package cluster_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/cluster/clustertest"
)

// TestRaftAsksForAddressesBeforeGossipRuns lets Raft ask for addresses while New still opens the
// gossip, as a candidate does that starts with a log. The race detector checks it.
func TestRaftAsksForAddressesBeforeGossipRuns(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	stop, done := make(chan struct{}), make(chan struct{})
	ask := func(n *cluster.Peer) {
		go func() {
			defer close(done)
			for {
				select {
				case <-stop:
					return
				default:
					n.AskAddresses("n2", "127.0.0.1:1")
					asked.Add(1)
				}
			}
		}()
		clustertest.Eventually(t, 10*time.Second, "the first question", func() error {
			if asked.Load() == 0 {
				return errors.New("not asked")
			}
			return nil
		})
	}
	c := clustertest.Start(t, clustertest.Options{Peers: 1,
		Configure: func(_ int, c *cluster.Config) { c.OnRaftStarted(ask) }})
	close(stop)
	<-done
	c.Leader()
}
