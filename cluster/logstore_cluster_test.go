package cluster_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/cluster/clustertest"
	"github.com/holdfast-metal/holdfast/fsm"
)

// Peers with different log stores form one cluster. They are killed in turn during writes, and
// receive snapshots. One loses its data and restarts with the other store. All acknowledged
// writes must be on each of them, and their states must be equal.
func TestLogStoresMixUnderTraffic(t *testing.T) {
	t.Parallel()
	stores := []string{cluster.LogStoreBolt, cluster.LogStoreWAL, cluster.LogStoreWAL}
	c := clustertest.Start(t, clustertest.Options{OnDisk: true, Configure: func(i int, c *cluster.Config) {
		c.LogStore = stores[i]
		c.SnapshotInterval, c.SnapshotThreshold, c.TrailingLogs = 50*time.Millisecond, 64, 32
	}})
	settled(t, c, 3)
	w := startWriter(t, c.Peers...)
	grow := func() {
		t.Helper()
		from := w.count()
		clustertest.Eventually(t, 60*time.Second, "writes", func() error {
			if got := w.count() - from; got < 50 {
				return fmt.Errorf("%d so far", got)
			}
			return nil
		})
	}
	for i, p := range c.Peers {
		grow()
		c.Kill(p)
		if i == 2 {
			c.Wipe(p)
			stores[i] = cluster.LogStoreBolt
		}
		grow() // entries to catch up with
		c.Restart(p)
		settled(t, c, 3)
	}
	grow()
	w.check(t, c.Peers...)
	clustertest.Eventually(t, 60*time.Second, "equal states", func() error {
		want, err := stateOf(c.Peers[0].FSM)
		if err != nil {
			return err
		}
		for _, p := range c.Peers[1:] {
			if got, err := stateOf(p.FSM); err != nil || !bytes.Equal(got, want) {
				return fmt.Errorf("state of %s at entry %d differs from %s at %d: %w", p.ID, p.FSM.Applied(), c.Peers[0].ID,
					c.Peers[0].FSM.Applied(), err)
			}
		}
		return nil
	})
}

// stateOf returns the whole state of a peer and its index.
func stateOf(f *fsm.FSM) ([]byte, error) {
	s, err := f.Snapshot()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	_, err = s.WriteTo(&b)
	return b.Bytes(), err
}
