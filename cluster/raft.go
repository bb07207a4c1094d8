package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"

	"github.com/holdfast-metal/holdfast/cluster/internal/liblog"
)

const (
	raftFile = "raft.db"
	// logCacheEntries is how many recent entries followers can get without reading the log
	// store. Each has up to maxEntry bytes.
	logCacheEntries = 512
	// dormant is the election timeout of a peer that may not vote. Its partial log could
	// hold an old configuration in which it alone is the majority.
	dormant = 10 * 365 * 24 * time.Hour
)

// stores are Raft's stores, in files or in memory.
type stores struct {
	logs   raft.LogStore
	stable raft.StableStore
	snaps  raft.SnapshotStore
	closer io.Closer // nil in memory
	guard  *diskGuard
	// measure exports bolt's statistics at an interval; nil in memory.
	measure func(ctx context.Context, every time.Duration)
}

func openStores(cfg *Config) (s *stores, err error) {
	defer damage("open raft log in "+cfg.DataDir, &err)
	guard := newDiskGuard()
	if cfg.DataDir == "" {
		mem := raft.NewInmemStore()
		s = &stores{logs: mem, stable: mem, snaps: raft.NewInmemSnapshotStore(), guard: guard}
	} else {
		path := filepath.Join(cfg.DataDir, raftFile)
		if err := errors.Join(cfg.checkLogFile(path), checkBolt(path)); err != nil {
			return nil, err
		}
		bolt, err := raftboltdb.New(raftboltdb.Options{
			Path: path,
			BoltOptions: &bbolt.Options{
				Timeout: time.Second,
				// A synced free list would be written with every commit, and it grows with
				// the file.
				NoFreelistSync: true,
				FreelistType:   bbolt.FreelistMapType,
			},
			MsgpackUseNewTimeFormat: true, // permanent: see newGate
		})
		if err != nil {
			return nil, boltError(path, err)
		}
		if err := cfg.checkLogState(bolt); err != nil {
			return nil, errors.Join(err, bolt.Close())
		}
		if s, err = openFiles(cfg, bolt, guard); err != nil {
			return nil, errors.Join(err, bolt.Close())
		}
	}
	if cfg.wrapLogs != nil {
		s.logs = cfg.wrapLogs(s.logs)
	}
	return s, nil
}

// openFiles opens the log, in bolt or in segments, and the snapshots.
func openFiles(cfg *Config, bolt *raftboltdb.BoltStore, guard *diskGuard) (_ *stores, err error) {
	store, closeLog, err := openLog(cfg, bolt)
	defer func() {
		if err != nil {
			err = errors.Join(err, closeLog())
		}
	}()
	if err != nil {
		return nil, err
	}
	logs := &checksumLogs{LogStore: store, damaged: func(error) {}}
	if err := logs.check(); err != nil {
		return nil, fmt.Errorf("open raft log in %s: %w: %s", cfg.DataDir, err, damageAdvice)
	}
	logs.damaged = guard.stop
	cache, err := raft.NewLogCache(logCacheEntries, logs)
	if err != nil {
		return nil, fmt.Errorf("make cache of the raft log: %w", err)
	}
	if !cfg.readOnly {
		if err := sweepSnapshots(cfg.DataDir); err != nil {
			return nil, err
		}
	}
	snaps, err := raft.NewFileSnapshotStoreWithLogger(cfg.DataDir, 2, liblog.New(cfg.Logger, "raft-snapshot"))
	if err != nil {
		return nil, fmt.Errorf("open snapshots in %s: %w", cfg.DataDir, err)
	}
	stable := &termStore{StableStore: &voteStore{StableStore: bolt}, guard: guard}
	return &stores{
		logs: cache, stable: stable, snaps: snaps,
		closer:  closers{closeLog, bolt.Close},
		guard:   guard,
		measure: bolt.RunMetrics,
	}, nil
}

// closers closes all its parts in order.
type closers []func() error

// Close implements io.Closer.
func (c closers) Close() error {
	var err error
	for _, end := range c {
		err = errors.Join(err, end())
	}
	return err
}

// sweepSnapshots removes snapshots that were being written when the peer died. Raft neither
// reads nor removes them, so each would occupy the space of a snapshot forever.
func sweepSnapshots(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, "snapshots", "*.tmp"))
	for _, path := range left {
		err = errors.Join(err, os.RemoveAll(path))
	}
	if err != nil {
		return fmt.Errorf("remove unfinished snapshots in %s: %w", dir, err)
	}
	return nil
}

func boltError(path string, err error) error {
	if errors.Is(err, bbolterrors.ErrTimeout) {
		return fmt.Errorf("data directory %s is in use by another process", filepath.Dir(path))
	}
	return fmt.Errorf("open raft log %s: %w", path, err)
}

// checkBolt walks the pages of a bolt file before it is opened for writing. Bolt does so in
// its own goroutine, where damage would crash the process without a helpful message.
func checkBolt(path string) error {
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && st.Size() == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open raft log: %w", err)
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return boltError(path, err)
	}
	err = db.View(func(tx *bbolt.Tx) error {
		if want := tx.Size(); st.Size() < want {
			return fmt.Errorf("the file is truncated to %d of %d bytes", st.Size(), want)
		}
		return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error {
			return b.ForEach(func(_, _ []byte) error { return nil })
		})
	})
	if err = errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("raft log %s is damaged: %w: %s", path, err, damageAdvice)
	}
	return nil
}

func (s *stores) close() error {
	if s.closer == nil {
		return nil
	}
	if err := s.closer.Close(); err != nil {
		return fmt.Errorf("close raft log: %w", err)
	}
	return nil
}

// hasState reports whether the peer has ever been part of a cluster.
func (s *stores) hasState() (bool, error) { return raft.HasExistingState(s.logs, s.stable, s.snaps) }

// raftConfig returns Raft's configuration. A peer that is not admitted gets dormant
// timeouts.
func raftConfig(cfg *Config, admitted bool, notify chan<- bool) *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(cfg.NodeID)
	c.HeartbeatTimeout, c.ElectionTimeout = dormant, dormant
	if admitted {
		c.HeartbeatTimeout, c.ElectionTimeout = cfg.scale(baseHeartbeat), cfg.scale(baseHeartbeat)
	}
	c.LeaderLeaseTimeout = cfg.scale(baseLease)
	// Followers learn of a commit with the next entry or after this timeout. Linearizable
	// reads on them wait for it.
	c.CommitTimeout = 10 * time.Millisecond
	c.MaxAppendEntries = 1024
	c.SnapshotThreshold = cfg.SnapshotThreshold
	c.SnapshotInterval = cfg.SnapshotInterval
	c.TrailingLogs = cfg.TrailingLogs
	c.ShutdownOnRemove = false
	c.NoLegacyTelemetry = true
	c.NotifyCh = notify
	c.Logger = liblog.New(cfg.Logger, "raft")
	return c
}

// startRaft restores the state and starts Raft. It returns an error if the log or the
// snapshots are damaged.
func startRaft(dir string, c *raft.Config, f raft.FSM, s *stores, t raft.Transport) (r *raft.Raft, err error) {
	defer damage("start raft", &err)
	r, err = raft.NewRaft(c, f, s.logs, s.stable, s.snaps, t)
	if err != nil {
		return nil, fmt.Errorf("start raft from data directory %s: %w: %s", dir, err, damageAdvice)
	}
	return r, nil
}

const damageAdvice = "restore this peer's data directory, or move it away to rejoin from the other peers"

// damage converts a panic over damaged files into an error. Bolt maps its file into memory,
// so even a truncated file causes a fault instead of an error.
func damage(what string, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%s: the files are damaged: %v: %s", what, p, damageAdvice)
	}
}

// faultsPanic turns memory faults of the calling goroutine into panics until the returned
// function is called.
func faultsPanic() func() {
	old := debug.SetPanicOnFault(true)
	return func() { debug.SetPanicOnFault(old) }
}

// awake sets the election timeouts of an admitted peer.
func (c *Config) awake(rc *raft.ReloadableConfig) {
	rc.HeartbeatTimeout, rc.ElectionTimeout = c.scale(baseHeartbeat), c.scale(baseHeartbeat)
}
