package raftstore

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	bbolterrors "go.etcd.io/bbolt/errors"
)

// ErrDisk is returned by WatchDisk if the disk no longer stores the data that Raft depends on, or
// returns something else than was written. The process must exit at once.
var ErrDisk = errors.New("the disk has failed")

// diskError is an ErrDisk with its cause.
type diskError struct{ cause error }

// Error implements error.
func (e *diskError) Error() string {
	what := ErrDisk.Error()
	if errors.Is(e.cause, syscall.ENOSPC) || errors.Is(e.cause, syscall.EDQUOT) {
		what = "the disk is full"
	}
	return what + ": " + e.cause.Error()
}

// Unwrap returns ErrDisk and the cause.
func (e *diskError) Unwrap() []error { return []error{ErrDisk, e.cause} }

// diskGuard stops the peer with an error where Raft would panic. The goroutine that met the
// failure blocks forever, because Raft must not build on data that is not on disk.
type diskGuard struct {
	failed chan error
	stand  func() // blocks forever
}

func newDiskGuard() *diskGuard {
	return &diskGuard{failed: make(chan error, 1), stand: func() { select {} }}
}

// stop reports the first failure. It never returns if somebody watches.
func (g *diskGuard) stop(err error) {
	g.note(err)
	g.stand()
}

// note reports the first failure.
func (g *diskGuard) note(err error) {
	select {
	case g.failed <- err:
	default:
	}
}

// watch returns an error when the disk fails, or an AppliedError.
func (g *diskGuard) watch(ctx context.Context) error {
	select {
	case err := <-g.failed:
		if applied, ok := errors.AsType[*AppliedError](err); ok {
			return applied // the disk is well
		}
		return &diskError{cause: err}
	case <-ctx.Done():
		return nil
	}
}

// guardedStable is a StableStore that stops the peer if the term or the vote cannot be written.
// Raft would panic, or stand for election forever.
type guardedStable struct {
	raft.StableStore

	guard *diskGuard
}

// SetUint64 implements raft.StableStore.
func (s *guardedStable) SetUint64(key []byte, v uint64) error {
	err := s.StableStore.SetUint64(key, v)
	if err != nil && !closed(err) {
		s.guard.stop(fmt.Errorf("write %s %d: %w", key, v, err))
	}
	return err
}

// Set implements raft.StableStore.
func (s *guardedStable) Set(key, value []byte) error {
	err := s.StableStore.Set(key, value)
	if err != nil && !closed(err) {
		s.guard.stop(fmt.Errorf("write %s: %w", key, err))
	}
	return err
}

// guardedLogs is a LogStore that stops the peer if the log cannot be written. Raft would lose the
// leadership, stand for election and lead again, because a term still fits where an entry does not.
type guardedLogs struct {
	raft.LogStore

	failed func(error)
}

// StoreLog implements raft.LogStore.
func (s *guardedLogs) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore.
func (s *guardedLogs) StoreLogs(logs []*raft.Log) error {
	if len(logs) == 0 {
		return nil
	}
	return s.checked("write entry", logs[0].Index, s.LogStore.StoreLogs(logs))
}

// DeleteRange implements raft.LogStore.
func (s *guardedLogs) DeleteRange(from, to uint64) error {
	return s.checked("remove entry", from, s.LogStore.DeleteRange(from, to))
}

// IsMonotonic implements raft.MonotonicLogStore.
func (s *guardedLogs) IsMonotonic() bool { return monotonic(s.LogStore) }

// checked reports the error of a write to failed.
func (s *guardedLogs) checked(what string, index uint64, err error) error {
	if err != nil && !closed(err) {
		s.failed(fmt.Errorf("%s %d of the raft log: %w", what, index, err))
	}
	return err
}

// closed reports whether a store was closed, because the peer stops.
func closed(err error) bool {
	return errors.Is(err, wal.ErrClosed) || errors.Is(err, bbolterrors.ErrDatabaseNotOpen)
}
