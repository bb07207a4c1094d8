package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// ErrDisk is what Run ends with when the disk no longer keeps what Raft cannot go on without, or
// gives back something else than was written. The process must exit at once.
var ErrDisk = errors.New("the disk has failed")

// keyCurrentTerm is where raft keeps its term.
var keyCurrentTerm = []byte("CurrentTerm")

// diskGuard ends the peer with a reason where Raft would panic. The goroutine that has met the
// failure stands still from then on: whatever Raft did next would rest on something that is not on
// the disk.
type diskGuard struct {
	failed chan error
	stand  func() // for ever
}

func newDiskGuard() *diskGuard {
	return &diskGuard{failed: make(chan error, 1), stand: func() { select {} }}
}

// stop reports the first failure, and never returns.
func (g *diskGuard) stop(err error) {
	select {
	case g.failed <- err:
	default:
	}
	g.stand()
}

// watch ends when the disk fails.
func (g *diskGuard) watch(ctx context.Context) error {
	select {
	case err := <-g.failed:
		return fmt.Errorf("%w: %w", ErrDisk, err)
	case <-ctx.Done():
		return nil
	}
}

// termStore is a StableStore whose term is always kept: raft panics otherwise.
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
