package raftstore

import (
	"errors"
	"fmt"
	"sync"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	wal "github.com/hashicorp/raft-wal"
)

// keyLogLowWater is the key in bolt of the low-water mark: the segments must end with that
// entry or a later one. If it is zero, they may be empty.
var keyLogLowWater = []byte("HoldfastLogFloor")

// walLogs are WAL segments with a low-water mark, which detects lost segments. If the
// newest file is missing or truncated, the WAL silently starts over. But a peer that has
// lost acknowledged entries must not vote. So bolt, which stores the votes, also records
// how far the segments reach: not with each write, but with the first write, when the log
// is shortened, each minute, and at shutdown.
type walLogs struct {
	*wal.WAL
	bolt *raftboltdb.BoltStore

	mu       sync.Mutex // guards lowWater
	lowWater uint64
}

// openWALLogs opens the segments. New ones have no low-water mark yet.
func openWALLogs(cfg *Config, path string, bolt *raftboltdb.BoltStore, fresh bool) (*walLogs, error) {
	f := &walLogs{bolt: bolt}
	var err error
	if fresh {
		err = f.set(0)
	} else if f.lowWater, err = bolt.GetUint64(keyLogLowWater); errors.Is(err, raftboltdb.ErrKeyNotFound) {
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("open raft log %s: %w", path, err)
	}
	if err := checkTail(cfg, path, f.lowWater); err != nil {
		return nil, err
	}
	if f.WAL, err = openWAL(cfg, path); err != nil {
		return nil, err
	}
	if err := cfg.syncDirs(path); err != nil {
		return nil, errors.Join(err, f.WAL.Close())
	}
	return f, nil
}

// set requires the lock, or that the store is not shared yet.
func (f *walLogs) set(mark uint64) error {
	if err := f.bolt.SetUint64(keyLogLowWater, mark); err != nil {
		return fmt.Errorf("record entry %d of the raft log: %w", mark, err)
	}
	f.lowWater = mark
	return nil
}

// StoreLog implements raft.LogStore.
func (f *walLogs) StoreLog(l *raft.Log) error { return f.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore.
func (f *walLogs) StoreLogs(logs []*raft.Log) error {
	if len(logs) == 0 {
		return nil
	}
	if err := f.WAL.StoreLogs(logs); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lowWater > 0 {
		return nil
	}
	return f.set(logs[0].Index)
}

// DeleteRange implements raft.LogStore. Raft removes entries from the beginning, from the
// end, or all.
func (f *walLogs) DeleteRange(from, to uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	first, err := f.FirstIndex()
	if err != nil {
		return err
	}
	last, err := f.LastIndex()
	if err != nil {
		return err
	}
	left := to + 1 // entries at the beginning are removed
	if to >= last {
		if left = 0; from > first {
			left = from - 1
		}
		// The mark goes down first, because after a crash the log must not end before it.
		if err := f.set(min(left, f.lowWater)); err != nil {
			return err
		}
	}
	if err := f.WAL.DeleteRange(from, to); err != nil || left <= f.lowWater {
		return err
	}
	return f.set(left)
}

// Close records where the log ends, and closes it.
func (f *walLogs) Close() error { return errors.Join(f.noteLast(), f.WAL.Close()) }

// noteLast records where the log ends.
func (f *walLogs) noteLast() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	last, err := f.LastIndex()
	if err != nil {
		return err
	}
	return f.set(last)
}
