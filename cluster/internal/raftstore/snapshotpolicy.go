package raftstore

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/cluster/internal/wait"
)

// Raft takes a snapshot after a number of entries and keeps a number of entries behind it.
// But an entry has between a few bytes and its size limit. With 100,000 agents, one entry holds
// some 2,000 leases of about 100 bytes each. The 8,192 entries that Raft would wait for
// then exceed a gigabyte, and a starting peer would apply all of it again. So the size of
// the log in bytes triggers snapshots, too.
const (
	// LogBytes is how far the log may grow before another snapshot, or half the size of the
	// last snapshot if that is more. This bounds what a starting peer applies, and what is
	// written for it.
	LogBytes = 64 << 20
	// trailingBytes of entries are kept behind a snapshot for peers that were away, but at
	// least minTrailing entries.
	trailingBytes = 256 << 20
	minTrailing   = 256
	// CheckInterval is the time between two checks of the log size. Up to as much
	// again is added at random, so that peers do not write their snapshots at the same
	// time.
	CheckInterval = 5 * time.Second
)

// LogSize is the size of a part of the log.
type LogSize struct{ Entries, Bytes int64 }

// Meter measures the entries that are applied.
type Meter struct {
	mu      sync.Mutex
	applied LogSize // all that this process applied
	stored  LogSize // the part of applied that the last snapshot covers
}

// Add counts an entry that has been applied.
func (s *Meter) Add(data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applied.Entries++
	s.applied.Bytes += int64(len(data))
}

// Mark returns the size that a snapshot taken now covers, for Store.
func (s *Meter) Mark() LogSize {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.applied
}

// Store records that a snapshot of that size is on disk.
func (s *Meter) Store(w LogSize) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.Entries > s.stored.Entries {
		s.stored = w
	}
}

// Since returns the size of the log after the last snapshot.
func (s *Meter) Since() LogSize {
	s.mu.Lock()
	defer s.mu.Unlock()
	return LogSize{s.applied.Entries - s.stored.Entries, s.applied.Bytes - s.stored.Bytes}
}

// Policy creates snapshots when the log has grown enough, and sets how many entries Raft
// keeps behind them.
type Policy struct {
	Raft  Snapshotter
	Snaps raft.SnapshotStore
	Meter *Meter
	// Reload changes Raft's configuration.
	Reload func(change func(*raft.ReloadableConfig))

	Interval     time.Duration // between two checks: see CheckInterval
	LogBytes     int64         // see the constant of that name
	TrailingLogs uint64        // the most that are kept
	Logger       *slog.Logger
}

// Snapshotter is the part of Raft that creates snapshots.
type Snapshotter interface {
	Snapshot() raft.SnapshotFuture
}

// Run checks the size of the log until ctx ends.
func (p *Policy) Run(ctx context.Context) error {
	for {
		if !wait.Sleep(ctx, p.Interval+rand.N(p.Interval)) { //nolint:gosec // jitter, not security
			return nil
		}
		w := p.Meter.Since()
		if w.Entries >= minTrailing {
			p.Reload(func(c *raft.ReloadableConfig) { c.TrailingLogs = trailing(p.TrailingLogs, w) })
		}
		if w.Bytes < p.snapshotBytes() {
			continue
		}
		err := wait.For(ctx, p.Raft.Snapshot())
		benign := errors.Is(err, raft.ErrNothingNewToSnapshot) || errors.Is(err, raft.ErrRaftShutdown)
		if err != nil && !benign && ctx.Err() == nil {
			p.Logger.Warn("snapshot failed, the log keeps growing", "bytes", w.Bytes, "error", err)
		}
	}
}

// snapshotBytes returns how many bytes the log must grow before another snapshot.
func (p *Policy) snapshotBytes() int64 {
	if all, err := p.Snaps.List(); err == nil && len(all) > 0 {
		return max(p.LogBytes, all[0].Size/2)
	}
	return p.LogBytes
}

// trailing returns how many entries of average size w are kept behind a snapshot.
func trailing(most uint64, w LogSize) uint64 {
	fit := uint64(trailingBytes / max(1, w.Bytes/max(1, w.Entries)))
	return min(most, max(minTrailing, fit))
}
