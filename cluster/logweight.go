package cluster

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Raft takes a snapshot after so many entries, and keeps so many behind it. An entry may have a few
// bytes or up to maxEntry: with 100,000 agents, one has the leases of some 2,000, of about 100
// bytes each, and the 8,192 that Raft would wait for have more than a gigabyte, all of which a peer
// that starts would apply again. So the bytes count, too.
const (
	// logBytes since the last snapshot are worth another, or half of what the last one has, where
	// that is more: what a start applies is bounded, and so is what is written for it.
	logBytes = 64 << 20
	// trailingBytes are kept behind a snapshot, for peers that were away, but minTrailing entries
	// in any case.
	trailingBytes = 256 << 20
	minTrailing   = 256
	// weighEvery is the pause between two looks; the next one is up to twice as long, so that peers
	// do not write their snapshots all at once.
	weighEvery = 5 * time.Second
)

// weight is that of a part of the log.
type weight struct{ entries, bytes int64 }

// scale weighs what is applied.
type scale struct {
	mu     sync.Mutex
	all    weight // applied by this process
	stored weight // of these: what the last snapshot has
}

func (s *scale) add(data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all.entries++
	s.all.bytes += int64(len(data))
}

// mark returns what a snapshot of now has, for store.
func (s *scale) mark() weight {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}

// store takes off what is in a snapshot that is on disk.
func (s *scale) store(w weight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.entries > s.stored.entries {
		s.stored = w
	}
}

// since is what came after the last snapshot.
func (s *scale) since() weight {
	s.mu.Lock()
	defer s.mu.Unlock()
	return weight{s.all.entries - s.stored.entries, s.all.bytes - s.stored.bytes}
}

// weighLog has snapshots taken that the bytes of the log are worth, and makes Raft keep as many
// entries behind them as these bytes allow.
func (n *Node) weighLog(ctx context.Context) error {
	for {
		t := time.NewTimer(n.cfg.weighEvery + rand.N(n.cfg.weighEvery)) //nolint:gosec // peers differ, nobody guesses
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
			n.log.Warn("no snapshot taken: the log goes on growing", "bytes", w.bytes, "error", err)
		}
	}
}

// worthSnapshot is how many bytes of log are.
func (n *Node) worthSnapshot() int64 {
	if all, err := n.stores.snaps.List(); err == nil && len(all) > 0 {
		return max(n.cfg.logBytes, all[0].Size/2)
	}
	return n.cfg.logBytes
}

// trailing is how many entries of this weight are kept behind a snapshot.
func trailing(most uint64, w weight) uint64 {
	fit := uint64(trailingBytes / max(1, w.bytes/max(1, w.entries)))
	return min(most, max(minTrailing, fit))
}

// reload changes Raft's configuration. Two changes at once would undo each other.
func (n *Node) reload(change func(*raft.ReloadableConfig)) {
	n.reloading.Lock()
	defer n.reloading.Unlock()
	c := n.raft.ReloadableConfig()
	change(&c)
	if err := n.raft.ReloadConfig(c); err != nil {
		n.log.Error("change Raft's configuration", "error", err)
	}
}
