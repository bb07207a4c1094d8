package cluster

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/cluster/internal/wait"
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
	snapshotCheckInterval = 5 * time.Second
)

// logSize is the size of a part of the log.
type logSize struct{ entries, bytes int64 }

// logMeter measures the entries that are applied.
type logMeter struct {
	mu      sync.Mutex
	applied logSize // all that this process applied
	stored  logSize // the part of applied that the last snapshot covers
}

func (s *logMeter) add(data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applied.entries++
	s.applied.bytes += int64(len(data))
}

// mark returns the size that a snapshot taken now covers, for store.
func (s *logMeter) mark() logSize {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.applied
}

// store records that a snapshot of that size is on disk.
func (s *logMeter) store(w logSize) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.entries > s.stored.entries {
		s.stored = w
	}
}

// since returns the size of the log after the last snapshot.
func (s *logMeter) since() logSize {
	s.mu.Lock()
	defer s.mu.Unlock()
	return logSize{s.applied.entries - s.stored.entries, s.applied.bytes - s.stored.bytes}
}

// runSnapshotPolicy creates snapshots when the log has grown enough, and sets how many
// entries Raft keeps behind them.
func (n *Node) runSnapshotPolicy(ctx context.Context) error {
	for {
		every := n.cfg.snapshotCheckInterval
		t := time.NewTimer(every + rand.N(every)) //nolint:gosec // jitter, not security
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil
		}
		w := n.driver.meter.since()
		if w.entries >= minTrailing {
			n.reload(func(c *raft.ReloadableConfig) { c.TrailingLogs = trailing(n.cfg.TrailingLogs, w) })
		}
		if w.bytes < n.snapshotBytes() {
			continue
		}
		err := wait.For(ctx, n.raft.Snapshot())
		benign := errors.Is(err, raft.ErrNothingNewToSnapshot) || errors.Is(err, raft.ErrRaftShutdown)
		if err != nil && !benign && ctx.Err() == nil {
			n.log.Warn("snapshot failed, the log keeps growing", "bytes", w.bytes, "error", err)
		}
	}
}

// snapshotBytes returns how many bytes the log must grow before another snapshot.
func (n *Node) snapshotBytes() int64 {
	if all, err := n.stores.snaps.List(); err == nil && len(all) > 0 {
		return max(n.cfg.logBytes, all[0].Size/2)
	}
	return n.cfg.logBytes
}

// trailing returns how many entries of average size w are kept behind a snapshot.
func trailing(most uint64, w logSize) uint64 {
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
