package raftstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	wal "github.com/hashicorp/raft-wal"

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
	// copyBatch is how many entries are copied at once. Each has up to the size limit of an entry.
	copyBatch = 64
)

// keyLogStore is the key in bolt that records which store has the log. It changes in one
// transaction. The other store's contents are ignored.
var keyLogStore = []byte("HoldfastLogStore")

// openLog opens the Raft log and first moves it to the configured store if it is in the
// other one. An empty cfg.LogStore keeps it in place. A crash during a move leaves the log
// in one of the two stores, and the next start continues.
func openLog(cfg *Config, bolt *raftboltdb.BoltStore) (raft.LogStore, func() error, error) {
	nothing := func() error { return nil }
	path := filepath.Join(cfg.Dir, walDir)
	is, err := logStoreOf(bolt)
	if err != nil {
		return nil, nothing, err
	}
	want := cfg.LogStore
	if want == "" {
		if want, err = defaultStore(cfg, bolt, is); err != nil {
			return nil, nothing, err
		}
	}
	if is == LogStoreBolt {
		if !cfg.ReadOnly {
			if err := removeWAL(path); err != nil { // left by an interrupted move; bolt has the whole log
				return nil, nothing, err
			}
		}
		if want == LogStoreBolt {
			return bolt, nothing, nil
		}
	} else {
		if _, err := os.Stat(filepath.Join(path, walMeta)); err != nil {
			return nil, nothing, fmt.Errorf("open raft log %s: the log is missing: %w: %s", path, err, DamageAdvice)
		}
		if !cfg.ReadOnly {
			if err := empty(bolt); err != nil { // finish an interrupted move
				return nil, nothing, err
			}
		}
	}
	segments, err := openWALLogs(cfg, path, bolt, is == LogStoreBolt)
	if err != nil {
		return nil, nothing, err
	}
	if is == want {
		return segments, segments.Close, nil
	}
	cfg.Logger.Info("moving the raft log to another store", "from", is, "to", want)
	if want == LogStoreWAL {
		if err := moveLog(bolt, segments, bolt, want); err != nil {
			return nil, nothing, errors.Join(err, segments.Close())
		}
		return segments, segments.Close, empty(bolt)
	}
	if err := errors.Join(moveLog(segments, bolt, bolt, want), segments.Close()); err != nil {
		return nil, nothing, err
	}
	return bolt, nothing, removeWAL(path)
}

// defaultStore returns where a log stays for which no store is configured. A directory that has
// never held a term or an entry is new.
func defaultStore(cfg *Config, bolt *raftboltdb.BoltStore, is string) (string, error) {
	if is == LogStoreWAL || cfg.ReadOnly {
		return is, nil
	}
	has, err := raft.HasExistingState(bolt, bolt, raft.NewDiscardSnapshotStore())
	if err != nil {
		return "", fmt.Errorf("read the raft log: %w", err)
	}
	if has {
		return is, nil
	}
	return LogStoreWAL, nil
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
		wal.WithSegmentSize(cfg.segmentSize), wal.WithSegmentFiler(cfg.filer), wal.WithMetaStore(cfg.list))
	if err != nil {
		return nil, fmt.Errorf("open raft log %s: %w: %s", path, err, DamageAdvice)
	}
	return segments, nil
}

// moveLog copies all entries and then records that the log is in the other store.
func moveLog(from, to raft.LogStore, bolt *raftboltdb.BoltStore, name string) error {
	first, err := from.FirstIndex()
	if err != nil {
		return fmt.Errorf("read raft log: %w", err)
	}
	last, err := from.LastIndex()
	if err != nil {
		return fmt.Errorf("read raft log: %w", err)
	}
	if first, err = afterHoles(from, first, last); err != nil {
		return err
	}
	for at := first; last > 0 && at <= last; at += copyBatch {
		var batch []*raft.Log
		for i := at; i <= min(at+copyBatch-1, last); i++ {
			l := new(raft.Log)
			if err := from.GetLog(i, l); err != nil {
				return fmt.Errorf("read entry %d of the raft log: %w", i, err)
			}
			batch = append(batch, l)
		}
		if err := to.StoreLogs(batch); err != nil {
			return fmt.Errorf("write entries from %d to the %s log: %w", at, name, err)
		}
		// failpoint: log-part-moved
	}
	if got, err := to.LastIndex(); err != nil || got != last {
		return errors.Join(fmt.Errorf("the %s log ends with entry %d, want %d", name, got, last), err)
	}
	// failpoint: log-moved
	if err := bolt.Set(keyLogStore, []byte(name)); err != nil {
		return fmt.Errorf("record that the raft log is in %s: %w", name, err)
	}
	// failpoint: log-move-noted
	return nil
}

// afterHoles returns the first entry after the last hole. A hole comes from an installed
// snapshot, which covers everything before it.
func afterHoles(logs raft.LogStore, first, last uint64) (uint64, error) {
	for i := first; last > 0 && i <= last; i++ {
		switch err := logs.GetLog(i, new(raft.Log)); {
		case errors.Is(err, raft.ErrLogNotFound):
			first = i + 1
		case err != nil:
			return 0, fmt.Errorf("read entry %d of the raft log: %w", i, err)
		}
	}
	return first, nil
}

// empty removes the remains of a moved log from bolt.
func empty(bolt *raftboltdb.BoltStore) error {
	first, err := bolt.FirstIndex()
	if err != nil {
		return fmt.Errorf("read old raft log: %w", err)
	}
	last, err := bolt.LastIndex()
	if err != nil {
		return fmt.Errorf("read old raft log: %w", err)
	}
	if last == 0 {
		return nil
	}
	if err := bolt.DeleteRange(first, last); err != nil {
		return fmt.Errorf("remove old raft log: %w", err)
	}
	return nil
}

// removeWAL removes segments that are not the log. It removes the metadata first, because
// without it the rest is not taken for a log.
func removeWAL(path string) error {
	err := os.Remove(filepath.Join(path, walMeta))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err := errors.Join(err, os.RemoveAll(path)); err != nil {
		return fmt.Errorf("remove old raft log: %w", err)
	}
	return nil
}

// monotonic reports whether a store refuses an entry that does not follow the last one.
func monotonic(s raft.LogStore) bool {
	m, ok := s.(raft.MonotonicLogStore)
	return ok && m.IsMonotonic()
}
