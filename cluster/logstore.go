package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	wal "github.com/hashicorp/raft-wal"
)

// What the Raft log is kept in (Config.LogStore). Raft's term and vote are in bolt always.
const (
	LogStoreBolt = "boltdb" // beside the term, in raft.db
	LogStoreWAL  = "wal"    // in segments of a directory of its own: one sync a write instead of two
)

const (
	walDir = "wal"
	// walMeta is the file in it that is there from the first moment on.
	walMeta = "wal-meta.db"
	// copyBatch is how many entries are copied at once. One has up to maxEntry bytes.
	copyBatch = 64
)

// keyLogStore says in bolt, in one transaction, which of the two has the log. What the other one
// has is nothing.
var keyLogStore = []byte("HoldfastLogStore")

// openLog returns the log of a data directory, in the store that is wanted ("": the one that it is
// in), after it has been brought there. A crash on the way leaves it where it was, or where it is
// to be, and the next start goes on.
func openLog(cfg *Config, bolt *raftboltdb.BoltStore) (raft.LogStore, func() error, error) {
	nothing := func() error { return nil }
	path := filepath.Join(cfg.DataDir, walDir)
	is, err := logStoreOf(bolt)
	if err != nil {
		return nil, nothing, err
	}
	want := cfg.LogStore
	if want == "" {
		want = is
	}
	if is == LogStoreBolt {
		if !cfg.readOnly {
			if err := removeWAL(path); err != nil { // left by a move that did not end; bolt has the whole log
				return nil, nothing, err
			}
		}
		if want == LogStoreBolt {
			return bolt, nothing, nil
		}
	} else {
		if _, err := os.Stat(filepath.Join(path, walMeta)); err != nil {
			return nil, nothing, fmt.Errorf("open raft log %s: it is kept there, and is not: %w: %s", path, err, damageAdvice)
		}
		if !cfg.readOnly {
			if err := empty(bolt); err != nil { // the end of such a move
				return nil, nothing, err
			}
		}
	}
	segments, err := openFloored(cfg, path, bolt, is == LogStoreBolt)
	if err != nil {
		return nil, nothing, err
	}
	if is == want {
		return segments, segments.Close, nil
	}
	cfg.Logger.Info("the raft log moves to another store", "from", is, "to", want)
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

func logStoreOf(bolt *raftboltdb.BoltStore) (string, error) {
	value, err := bolt.Get(keyLogStore)
	switch is := string(value); {
	case errors.Is(err, raftboltdb.ErrKeyNotFound):
		return LogStoreBolt, nil
	case err != nil:
		return "", fmt.Errorf("read where the raft log is: %w", err)
	case is == LogStoreBolt, is == LogStoreWAL:
		return is, nil
	default:
		return "", fmt.Errorf("the raft log is in %q, which this build does not know: upgrade it", is)
	}
}

func openWAL(cfg *Config, path string) (*wal.WAL, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("make directory of the raft log: %w", err)
	}
	segments, err := wal.Open(path, wal.WithLogger(newHCLog(cfg.Logger, "raft-wal")))
	if err != nil {
		return nil, fmt.Errorf("open raft log %s: %w: %s", path, err, damageAdvice)
	}
	return segments, nil
}

// moveLog copies all entries, and then notes that they are in the other store.
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
		return fmt.Errorf("note that the raft log is in %s: %w", name, err)
	}
	// failpoint: log-move-noted
	return nil
}

// afterHoles returns the first entry after which none is missing. What comes before a hole is in
// the snapshot that made it.
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

// empty removes what is left of a log in bolt that has moved.
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

// removeWAL removes segments that are nobody's log. Its meta data go first: without them nothing
// takes the rest for one.
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
