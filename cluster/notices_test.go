package cluster_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/cluster/clustertest"
)

// longTimeout is a CommitTimeout that shows whether a follower waits for it. Raft also retries
// after it, so it must pass during a test.
const longTimeout = 10 * time.Second

// mayBeSlow is how many writes of a test may wait for longTimeout: a connection may break, or a
// leader change, on a busy machine.
const mayBeSlow = 3

// followed counts the writes that followers applied late.
type followed struct {
	*clustertest.Cluster
	slow int
}

// apply registers one machine at a time on the leader. Each must be applied by every peer before
// the next one.
func (c *followed) apply(t *testing.T, name string, n int) {
	t.Helper()
	leader := c.Leader()
	for i := range n {
		began := time.Now()
		if err := register(t.Context(), leader, fmt.Sprintf("%s-%d", name, i)); err != nil {
			t.Fatalf("%s: write %d: %v", name, i, err)
		}
		want := leader.FSM.Applied()
		clustertest.Eventually(t, time.Minute, fmt.Sprintf("%s: all to apply write %d", name, i), func() error {
			for _, p := range c.Followers(leader) {
				if got := p.FSM.Applied(); got < want {
					return fmt.Errorf("%s has applied entry %d of %d", p.ID, got, want)
				}
			}
			return nil
		})
		if took := time.Since(began); took > longTimeout/4 {
			t.Logf("%s: write %d took %v", name, i, took)
			c.slow++
		}
		if c.slow > mayBeSlow {
			t.Fatalf("%s: got %d slow writes, want at most %d", name, c.slow, mayBeSlow)
		}
	}
}

// leadEach lets each peer lead in turn.
func (c *followed) leadEach(t *testing.T, then func(name string)) {
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
	configure := func(i int, c *cluster.Config) {
		calm(i, c)
		c.SetCommitTimeout(longTimeout)
		c.SnapshotInterval, c.SnapshotThreshold, c.TrailingLogs = 50*time.Millisecond, 64, 16
	}
	c := &followed{Cluster: clustertest.Start(t, clustertest.Options{OnDisk: true, Configure: configure})}
	settled(t, c.Cluster, 3)
	c.leadEach(t, func(name string) { c.apply(t, name, 10) })

	behind := c.Followers(c.Leader())[0]
	c.Kill(behind)
	c.apply(t, "one-down", 150)
	c.Restart(behind)
	settled(t, c.Cluster, 3)
	c.apply(t, "after-a-snapshot", 10)
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

// TestPeersWithoutNotices checks that peers follow a leader that sends no notices, as if all were
// lost, and that it follows the others.
func TestPeersWithoutNotices(t *testing.T) {
	t.Parallel()
	c := &followed{Cluster: clustertest.Start(t, clustertest.Options{Configure: func(i int, c *cluster.Config) {
		calm(i, c)
		if i == 0 {
			c.SendNoNotices()
		} else {
			c.SetCommitTimeout(longTimeout)
		}
	}})}
	settled(t, c.Cluster, 3)
	c.leadEach(t, func(name string) { c.apply(t, name, 5) })
}
