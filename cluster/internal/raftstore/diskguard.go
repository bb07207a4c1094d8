package raftstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// ErrDisk is returned by WatchDisk if the disk no longer stores the data that Raft depends on, or
// returns something else than was written. The process must exit at once.
var ErrDisk = errors.New("the disk has failed")

// keyCurrentTerm is the key under which Raft stores its term.
var keyCurrentTerm = []byte("CurrentTerm")

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
	select {
	case g.failed <- err:
	default:
	}
	g.stand()
}

// watch returns an error when the disk fails.
func (g *diskGuard) watch(ctx context.Context) error {
	select {
	case err := <-g.failed:
		return fmt.Errorf("%w: %w", ErrDisk, err)
	case <-ctx.Done():
		return nil
	}
}

// termStore is a StableStore that stops the peer if the term cannot be written. Raft would
// panic.
type termStore struct {
	raft.StableStore

	guard *diskGuard
}

// SetUint64 implements raft.StableStore.
func (s *termStore) SetUint64(key []byte, v uint64) error {
	err := s.StableStore.SetUint64(key, v)
	if err != nil && bytes.Equal(key, keyCurrentTerm) {
		s.guard.stop(fmt.Errorf("write term %d: %w", v, err))
	}
	return err
}
