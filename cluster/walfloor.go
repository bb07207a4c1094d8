package cluster

import (
	"errors"
	"fmt"
	"sync"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	wal "github.com/hashicorp/raft-wal"
)

// keyLogFloor is an entry that the segments surely have, or a later one. Zero: they may be empty.
var keyLogFloor = []byte("HoldfastLogFloor")

// flooredLogs are segments whose loss is noticed. They begin anew without a word where the newest
// file is gone or cut off, and a peer that has lost what it acknowledged must not vote. So bolt,
// which has the votes, remembers how far they went: not with each write, but with the first one,
// whenever the log is shortened, and at the end.
type flooredLogs struct {
	*wal.WAL
	bolt *raftboltdb.BoltStore

	mu    sync.Mutex // guards floor
	floor uint64
}

// openFloored opens segments. New ones have no floor yet.
func openFloored(cfg *Config, path string, bolt *raftboltdb.BoltStore, fresh bool) (*flooredLogs, error) {
	f := &flooredLogs{bolt: bolt}
	var err error
	if fresh {
		err = f.set(0)
	} else if f.floor, err = bolt.GetUint64(keyLogFloor); errors.Is(err, raftboltdb.ErrKeyNotFound) {
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("open raft log %s: %w", path, err)
	}
	if f.WAL, err = openWAL(cfg, path); err != nil {
		return nil, err
	}
	last, err := f.LastIndex()
	if err == nil && last < f.floor {
		err = fmt.Errorf("it ends with entry %d, and had entry %d: %s", last, f.floor, damageAdvice)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open raft log %s: %w", path, err), f.WAL.Close())
	}
	return f, nil
}

// set is called with the lock held, or before anybody else has the store.
func (f *flooredLogs) set(floor uint64) error {
	if err := f.bolt.SetUint64(keyLogFloor, floor); err != nil {
		return fmt.Errorf("note entry %d of the raft log: %w", floor, err)
	}
	f.floor = floor
	return nil
}

// StoreLog implements raft.LogStore.
func (f *flooredLogs) StoreLog(l *raft.Log) error { return f.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore.
func (f *flooredLogs) StoreLogs(logs []*raft.Log) error {
	if err := f.WAL.StoreLogs(logs); err != nil || len(logs) == 0 {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.floor > 0 {
		return nil
	}
	return f.set(logs[0].Index)
}

// DeleteRange implements raft.LogStore. Raft takes away from the beginning, from the end, or
// everything.
func (f *flooredLogs) DeleteRange(from, to uint64) error {
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
	left := to + 1 // the beginning goes
	if to >= last {
		if left = 0; from > first {
			left = from - 1
		}
		if err := f.set(min(left, f.floor)); err != nil { // before: a crash must not find less than it is told of
			return err
		}
	}
	if err := f.WAL.DeleteRange(from, to); err != nil || left <= f.floor {
		return err
	}
	return f.set(left)
}

// Close notes how far the log goes, and closes it.
func (f *flooredLogs) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	last, err := f.LastIndex()
	if err == nil {
		err = f.set(last)
	}
	return errors.Join(err, f.WAL.Close())
}
