// Package raftstore owns what Raft keeps on disk: the log in bolt or in segments, the term and the
// vote, and the snapshots. It detects files that are lost or damaged, stops the peer when the disk
// fails, and decides when a snapshot is due. It must not know the entries that it keeps.
package raftstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"github.com/hashicorp/raft-wal/types"
	"go.etcd.io/bbolt"

	"github.com/holdfast-metal/holdfast/cluster/internal/liblog"
)

const (
	raftFile    = "raft.db"
	snapshotDir = "snapshots"
	// logCacheEntries is how many recent entries followers can get without reading the log
	// store. Each has up to the size limit of an entry.
	logCacheEntries = 512
)

// Config configures the stores of a peer.
type Config struct {
	// Dir is the data directory. If it is empty, everything is kept in memory.
	Dir string
	// LogStore is LogStoreBolt or LogStoreWAL. An existing log must be in that store. If it is
	// empty, any store is right, and a new log is in segments.
	LogStore string
	// ReadOnly means that nothing in Dir is removed.
	ReadOnly bool
	// Offline means that nobody calls WatchDisk: failures of the disk are returned.
	Offline bool
	// Logger receives the lines of the libraries.
	Logger *slog.Logger
	// Applied returns the newest entry that the peer has applied. It may be nil.
	Applied func() uint64
	// Wrap, if set, replaces the log store under Raft's cache, to simulate a failing disk.
	Wrap func(raft.LogStore) raft.LogStore

	clusterID   string // for error texts
	logExpected bool   // Dir must hold a Raft log: see ExpectLog

	// For tests. Zero values are the defaults.
	segmentSize int
	vfs         types.VFS
	list        types.MetaStore
	syncDir     func(dir string) error
}

// Stores are Raft's stores, in files or in memory.
type Stores struct {
	Logs   raft.LogStore
	Stable raft.StableStore
	Snaps  raft.SnapshotStore
	// Measure exports bolt's statistics at an interval; nil in memory.
	Measure func(ctx context.Context, every time.Duration)

	late      *lateWrites
	applied   func() uint64 // the newest entry that this peer is known to have applied
	older     olderSnaps
	close     func() error // nil in memory
	guard     *diskGuard
	dir       string // empty in memory
	snapshots *notedSnaps
	bolt      *raftboltdb.BoltStore // nil in memory
	memory    []byte                // the marks in memory
	noteEnd   func() error          // nil in memory
}

// Open opens the stores. It returns an error if the directory is in use, or if its files are
// lost or damaged.
func Open(cfg *Config) (s *Stores, err error) {
	defer Damage("open raft log in "+cfg.Dir, &err)
	guard := newDiskGuard()
	if cfg.Offline {
		guard.stand = func() {}
	}
	if cfg.Dir == "" {
		mem := raft.NewInmemStore()
		late, snaps := newLateWrites(cfg.wrapped(mem)), &notedSnaps{SnapshotStore: raft.NewInmemSnapshotStore()}
		return &Stores{Logs: late, Stable: mem, Snaps: snaps, late: late, guard: guard, snapshots: snaps,
			applied: func() uint64 { return 0 }}, nil
	}
	path := filepath.Join(cfg.Dir, raftFile)
	if err := errors.Join(cfg.checkLogFile(path), cfg.checkBolt(path)); err != nil {
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
		MsgpackUseNewTimeFormat: true, // permanent: see package transport
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
	return s, nil
}

func (c *Config) wrapped(s raft.LogStore) raft.LogStore {
	if c.Wrap == nil {
		return s
	}
	return c.Wrap(s)
}

// openFiles opens the log, in bolt or in segments, and the snapshots.
func openFiles(cfg *Config, bolt *raftboltdb.BoltStore, guard *diskGuard) (_ *Stores, err error) {
	store, closeLog, noteLast, err := openLog(cfg, bolt)
	defer func() {
		if err != nil {
			err = errors.Join(err, closeLog())
		}
	}()
	if err != nil {
		return nil, err
	}
	guarded := &guardedLogs{LogStore: store, failed: func(error) {}}
	logs := &checksumLogs{LogStore: guarded, damaged: func(error) {}, refused: guard.note, now: cfg.Applied}
	if err := logs.check(); err != nil {
		return nil, fmt.Errorf("open raft log in %s: %w: %s", cfg.Dir, err, DamageAdvice)
	}
	if err := logs.loadApplied(bolt); err != nil {
		return nil, err
	}
	logs.damaged, guarded.failed = guard.stop, guard.stop
	late := newLateWrites(cfg.wrapped(logs))
	cache, err := raft.NewLogCache(logCacheEntries, late)
	if err != nil {
		return nil, fmt.Errorf("make cache of the raft log: %w", err)
	}
	if !cfg.ReadOnly {
		if err := errors.Join(sweepSnapshots(cfg.Dir), cfg.syncSnapshots()); err != nil {
			return nil, err
		}
	}
	snaps, err := raft.NewFileSnapshotStoreWithLogger(cfg.Dir, 2, liblog.New(cfg.Logger, "raft-snapshot"))
	if err != nil {
		return nil, fmt.Errorf("open snapshots in %s: %w", cfg.Dir, err)
	}
	if !cfg.ReadOnly {
		if err := cfg.syncDirs(cfg.Dir); err != nil { // the library never syncs that raft.db exists
			return nil, err
		}
		if err := dropReplaced(store, snaps); err != nil {
			return nil, fmt.Errorf("open raft log in %s: %w", cfg.Dir, err)
		}
	}
	stable := &guardedStable{StableStore: &voteStore{StableStore: bolt}, guard: guard}
	noted := &notedSnaps{SnapshotStore: snaps, sync: cfg.syncSnapshot}
	return &Stores{
		Logs: cache, Stable: stable, Snaps: noted, dir: cfg.Dir, late: late, snapshots: noted,
		Measure: bolt.RunMetrics, applied: logs.applied, bolt: bolt,
		noteEnd: func() error { return errors.Join(logs.noteApplied(bolt), noteLast()) },
		close: func() error {
			var noted error
			if !cfg.ReadOnly {
				noted = logs.noteApplied(bolt)
			}
			return errors.Join(noted, closeLog(), bolt.Close())
		},
		guard: guard,
	}, nil
}

// sweepSnapshots removes snapshots that were being written when the peer died. Raft neither
// reads nor removes them, so each would occupy the space of a snapshot forever.
func sweepSnapshots(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, snapshotDir, "*.tmp"))
	for _, path := range left {
		err = errors.Join(err, os.RemoveAll(path))
	}
	if err != nil {
		return fmt.Errorf("remove unfinished snapshots in %s: %w", dir, err)
	}
	return nil
}

// Names returns the names of the files and directories in a data directory that hold Raft's
// state.
func Names() []string { return []string{raftFile, walDir, snapshotDir} }

// Close closes the files once the running write has ended. Raft must not run.
func (s *Stores) Close() error {
	if s.close == nil {
		return nil
	}
	s.late.end() // raft-wal panics if it is closed while a write begins
	if err := s.close(); err != nil {
		return fmt.Errorf("close raft log: %w", err)
	}
	return nil
}

// HasState reports whether the peer has ever been part of a cluster.
func (s *Stores) HasState() (bool, error) { return raft.HasExistingState(s.Logs, s.Stable, s.Snaps) }

// WriteLate lets the leader send entries to its followers while it writes them. may is called by
// Raft when it stores entries, and reports whether Raft needs other voters to commit them. The
// caller must pass no voter's answer to Raft before Synced reports its entries.
func (s *Stores) WriteLate(may func() bool) {
	s.late.mu.Lock()
	defer s.late.mu.Unlock()
	s.late.may = may
}

// Synced reports whether the entries of the log up to an index are on disk. If not, the channel is
// closed after the next write.
func (s *Stores) Synced(index uint64) (bool, <-chan struct{}) { return s.late.synced(index) }

// WatchDisk returns ErrDisk when the disk fails, an AppliedError when the leader's log contradicts
// applied entries, and nil when ctx ends.
func (s *Stores) WatchDisk(ctx context.Context) error { return s.guard.watch(ctx) }

// Term returns the term that Raft has stored.
func (s *Stores) Term() (uint64, error) { return s.Stable.GetUint64(keyCurrentTerm) }

// SetTerm replaces the term that Raft has stored. Raft must not run.
func (s *Stores) SetTerm(term uint64) error { return s.Stable.SetUint64(keyCurrentTerm, term) }

// VoteTerm returns the term of the last vote.
func (s *Stores) VoteTerm() (uint64, error) { return s.Stable.GetUint64(keyLastVoteTerm) }

// VoteCandidate returns the address of the candidate that got the last vote.
func (s *Stores) VoteCandidate() (string, error) {
	candidate, err := s.Stable.Get(keyLastVoteCand)
	return string(candidate), err
}
