package cluster

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Raft takes a snapshot after a number of entries and keeps a number of entries behind it.
// But an entry has between a few bytes and maxEntry. With 100,000 agents, one entry holds
// some 2,000 leases of about 100 bytes each. The 8,192 entries that Raft would wait for
// then exceed a gigabyte, and a starting peer would apply all of it again. So the size of
// the log in bytes triggers snapshots, too.
const (
	// logBytes is how far the log may grow before another snapshot, or half the size of the
	// last snapshot if that is more. This bounds what a starting peer applies, and what is
	// written for it.
	logBytes = 64 << 20
	// trailingBytes of entries are kept behind a snapshot for peers that were away, but at
	// least minTrailing entries.
	trailingBytes = 256 << 20
	minTrailing   = 256
	// snapshotCheckInterval is the time between two checks of the log size. Up to as much
	// again is added at random, so that peers do not write their snapshots at the same
	// time.
	weighEvery = 5 * time.Second
)

// logSize is the size of a part of the log.
type weight struct{ entries, bytes int64 }

// logMeter measures the entries that are applied.
type scale struct {
	mu     sync.Mutex
	all    weight // all that this process applied
	stored weight // the part of applied that the last snapshot covers
}

func (s *scale) add(data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all.entries++
	s.all.bytes += int64(len(data))
}

// mark returns the size that a snapshot taken now covers, for store.
func (s *scale) mark() weight {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}

// store records that a snapshot of that size is on disk.
func (s *scale) store(w weight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.entries > s.stored.entries {
		s.stored = w
	}
}

// since returns the size of the log after the last snapshot.
func (s *scale) since() weight {
	s.mu.Lock()
	defer s.mu.Unlock()
	return weight{s.all.entries - s.stored.entries, s.all.bytes - s.stored.bytes}
}

// runSnapshotPolicy takes snapshots when the log has grown enough, and sets how many
// entries Raft keeps behind them.
func (n *Node) weighLog(ctx context.Context) error {
	for {
		t := time.NewTimer(n.cfg.weighEvery + rand.N(n.cfg.weighEvery)) //nolint:gosec // jitter, not security
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil
		}
		w := n.driver.scale.since()
		if w.entries >= minTrailing {
			n.reload(func(c *raft.ReloadableConfig) { c.TrailingLogs = trailing(n.cfg.TrailingLogs, w) })
		}
		if w.bytes < n.worthSnapshot() {
			continue
		}
		if err := await(ctx, n.raft.Snapshot()); err != nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) && !errors.Is(err, raft.ErrRaftShutdown) && ctx.Err() == nil {
			n.log.Warn("snapshot failed, the log keeps growing", "bytes", w.bytes, "error", err)
		}
	}
}

// snapshotThreshold returns how many bytes the log must grow before another snapshot.
func (n *Node) worthSnapshot() int64 {
	if all, err := n.stores.snaps.List(); err == nil && len(all) > 0 {
		return max(n.cfg.logBytes, all[0].Size/2)
	}
	return n.cfg.logBytes
}

// trailing returns how many entries of average size w are kept behind a snapshot.
func trailing(most uint64, w weight) uint64 {
	fit := uint64(trailingBytes / max(1, w.bytes/max(1, w.entries)))
	return min(most, max(minTrailing, fit))
}

// reload changes Raft's configuration. Concurrent changes would undo each other.
func (n *Node) reload(change func(*raft.ReloadableConfig)) {
	n.reloading.Lock()
	defer n.reloading.Unlock()
	c := n.raft.ReloadableConfig()
	change(&c)
	if err := n.raft.ReloadConfig(c); err != nil {
		n.log.Error("change Raft's configuration", "error", err)
	}
}
