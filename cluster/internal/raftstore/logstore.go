package raftstore

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	wal "github.com/hashicorp/raft-wal"
	walsegment "github.com/hashicorp/raft-wal/segment"

	"github.com/holdfast-metal/holdfast/cluster/internal/liblog"
)

// Stores of the Raft log (Config.LogStore). Raft's term and vote are always in bolt.
const (
	LogStoreBolt = "boltdb" // together with the term, in raft.db
	LogStoreWAL  = "wal"    // in segments of a separate directory: one sync per write instead of two
)

const (
	walDir = "wal"
	// walMeta is a file in walDir that exists from the beginning.
	walMeta = "wal-meta.db"
)

// keyLogStore is the key in bolt that records which store has the log. It never changes.
var keyLogStore = []byte("HoldfastLogStore")

// openLog opens the Raft log. The store of a new log is recorded once it exists. noteLast records
// how far the log reaches on disk.
func openLog(cfg *Config, bolt *raftboltdb.BoltStore) (_ raft.LogStore, closeLog, noteLast func() error, _ error) {
	nothing := func() error { return nil }
	path := filepath.Join(cfg.Dir, walDir)
	is, err := cfg.storeOf(bolt)
	if err != nil {
		return nil, nothing, nothing, err
	}
	fresh := is == ""
	if is = cmp.Or(is, cfg.LogStore, LogStoreWAL); fresh && cfg.ReadOnly {
		is = LogStoreBolt // which has no entry, either
	}
	if cfg.LogStore != "" && cfg.LogStore != is {
		return nil, nothing, nothing, fmt.Errorf("log store is %q, but data directory %s has its raft log in %q, "+
			"which cannot be "+
			"changed: set log_store to %s, or move the directory away to rejoin with an empty one",
			cfg.LogStore, cfg.Dir, is, is)
	}
	logs, closeLog, noteLast := raft.LogStore(bolt), nothing, nothing
	if is == LogStoreWAL {
		if _, err := os.Stat(filepath.Join(path, walMeta)); err != nil && !fresh {
			return nil, nothing, nothing, fmt.Errorf("open raft log %s: the log is missing: %w: %s", path, err, DamageAdvice)
		}
		segments, err := openWALLogs(cfg, path, bolt, fresh)
		if err != nil {
			return nil, nothing, nothing, err
		}
		logs, closeLog, noteLast = segments, segments.Close, segments.noteLast
	}
	if fresh && !cfg.ReadOnly {
		if err := bolt.Set(keyLogStore, []byte(is)); err != nil {
			return nil, nothing, nothing, errors.Join(fmt.Errorf("record that the raft log is in %s: %w", is, err), closeLog())
		}
	}
	return logs, closeLog, noteLast, nil
}

// storeOf returns the store of the log in the data directory, or "" if the directory has never held
// a term or an entry.
func (c *Config) storeOf(bolt *raftboltdb.BoltStore) (string, error) {
	if _, err := bolt.Get(keyLogStore); !errors.Is(err, raftboltdb.ErrKeyNotFound) {
		return logStoreOf(bolt)
	}
	has, err := raft.HasExistingState(bolt, bolt, raft.NewDiscardSnapshotStore())
	if err != nil {
		return "", fmt.Errorf("read the raft log: %w", err)
	}
	if has {
		return LogStoreBolt, nil
	}
	return "", nil
}

func logStoreOf(bolt *raftboltdb.BoltStore) (string, error) {
	value, err := bolt.Get(keyLogStore)
	switch is := string(value); {
	case errors.Is(err, raftboltdb.ErrKeyNotFound):
		return LogStoreBolt, nil
	case err != nil:
		return "", fmt.Errorf("read the store of the raft log: %w", err)
	case is == LogStoreBolt, is == LogStoreWAL:
		return is, nil
	default:
		return "", fmt.Errorf("unknown raft log store %q: upgrade this peer", is)
	}
}

func openWAL(cfg *Config, path string) (*wal.WAL, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("make directory of the raft log: %w", err)
	}
	segments, err := wal.Open(path, wal.WithLogger(liblog.New(cfg.Logger, "raft-wal")),
		wal.WithSegmentSize(cfg.segmentSize), wal.WithMetaStore(cfg.list),
		wal.WithSegmentFiler(walsegment.NewFiler(path, cfg.files())))
	if err != nil {
		return nil, fmt.Errorf("open raft log %s: %w: %s", path, err, DamageAdvice)
	}
	return segments, nil
}

// monotonic reports whether a store refuses an entry that does not follow the last one.
func monotonic(s raft.LogStore) bool {
	m, ok := s.(raft.MonotonicLogStore)
	return ok && m.IsMonotonic()
}
