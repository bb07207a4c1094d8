package cluster_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/cluster/clustertest"
)

// never is a CommitTimeout that does not pass during a test.
const never = time.Hour

// applyAll registers one machine at a time on the leader. Each must be applied by every peer before
// the next one.
func applyAll(t *testing.T, c *clustertest.Cluster, name string, n int) {
	t.Helper()
	leader := c.Leader()
	for i := range n {
		if err := register(t.Context(), leader, fmt.Sprintf("%s-%d", name, i)); err != nil {
			t.Fatalf("%s: write %d: %v", name, i, err)
		}
		want := leader.FSM.Applied()
		clustertest.Eventually(t, 30*time.Second, fmt.Sprintf("%s: all to apply write %d", name, i), func() error {
			for _, p := range c.Followers(leader) {
				if got := p.FSM.Applied(); got < want {
					return fmt.Errorf("%s has applied entry %d of %d", p.ID, got, want)
				}
			}
			return nil
		})
	}
}

func leadEach(t *testing.T, c *clustertest.Cluster, then func(name string)) {
	t.Helper()
	for _, p := range c.Peers {
		leader := c.Leader()
		if leader != p {
			if id, err := leader.Node.TransferTo(t.Context(), p.ID); err != nil || id != p.ID {
				t.Fatalf("transfer from %s to %s: got %q, %v", leader.ID, p.ID, id, err)
			}
			clustertest.Eventually(t, 20*time.Second, p.ID+" to lead", func() error {
				if !p.Node.Ready() {
					return fmt.Errorf("it is a %s", p.Node.Role())
				}
				return nil
			})
		}
		then("led-by-" + p.ID)
	}
}

// TestFollowersApplyAtOnce checks that followers learn of each commit without a later entry and
// without CommitTimeout, also after changes of the leader, and after a follower has got a snapshot.
func TestFollowersApplyAtOnce(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, clustertest.Options{OnDisk: true, Configure: func(i int, c *cluster.Config) {
		calm(i, c)
		c.SetCommitTimeout(never)
		c.SnapshotInterval, c.SnapshotThreshold, c.TrailingLogs = 50*time.Millisecond, 64, 16
	}})
	settled(t, c, 3)
	leadEach(t, c, func(name string) { applyAll(t, c, name, 10) })

	behind := c.Followers(c.Leader())[0]
	c.Kill(behind)
	applyAll(t, c, "one-down", 150)
	c.Restart(behind)
	settled(t, c, 3)
	applyAll(t, c, "after-a-snapshot", 10)
	want, err := stateOf(c.Leader().FSM)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range c.Peers {
		if got, err := stateOf(p.FSM); err != nil || !bytes.Equal(got, want) {
			t.Errorf("state of %s differs from the leader's: %v", p.ID, err)
		}
	}
}

// TestPeersWithoutNotices checks that peers that send notices and peers that send none, like those
// of an older build, follow each other.
func TestPeersWithoutNotices(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, clustertest.Options{Configure: func(i int, c *cluster.Config) {
		calm(i, c)
		if i == 0 {
			c.SendNoNotices()
		} else {
			c.SetCommitTimeout(never)
		}
	}})
	settled(t, c, 3)
	leadEach(t, c, func(name string) { applyAll(t, c, name, 5) })
}
