package raftstore

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// notedSnaps is a SnapshotStore that keeps the error of the last snapshot. The peer continues: the
// log holds everything, and only grows.
type notedSnaps struct {
	raft.SnapshotStore

	sync func(id string) error // nil in memory
	last atomic.Pointer[error] // nil if the last snapshot is on disk
}

// Create implements raft.SnapshotStore.
func (s *notedSnaps) Create(version raft.SnapshotVersion, index, term uint64, c raft.Configuration, ci uint64,
	t raft.Transport,
) (raft.SnapshotSink, error) {
	sink, err := s.SnapshotStore.Create(version, index, term, c, ci, t)
	if err != nil {
		return nil, s.note(err)
	}
	return &notedSink{sink, s}, nil
}

func (s *notedSnaps) note(err error) error {
	noted := fmt.Errorf("write snapshot: %w", err)
	s.last.Store(&noted)
	return err
}

// notedSink notes how the writing of a snapshot ends.
type notedSink struct {
	raft.SnapshotSink

	store *notedSnaps
}

// Write implements io.Writer.
func (s *notedSink) Write(b []byte) (int, error) {
	n, err := s.SnapshotSink.Write(b)
	if err != nil {
		err = s.store.note(err)
	}
	return n, err
}

// Close implements io.Closer.
func (s *notedSink) Close() error {
	err := s.SnapshotSink.Close()
	if err == nil && s.store.sync != nil {
		err = s.store.sync(s.ID())
	}
	if err != nil {
		return s.store.note(err)
	}
	s.store.last.Store(nil)
	return nil
}

// Warning returns the reason why the disk needs attention although the peer works: its last
// snapshot failed, or it has little space left. It returns nil otherwise.
func (s *Stores) Warning() error {
	var failed, low error
	if err := s.snapshots.last.Load(); err != nil {
		failed = *err
	}
	if free, total, err := s.Space(); err == nil && free < min(lowSpace, total/lowPart) {
		low = fmt.Errorf("the disk of %s is almost full: %d MiB free of %d MiB", s.dir, free>>20, total>>20)
	}
	return errors.Join(failed, low)
}

const (
	lowSpace = 1 << 30 // bytes: less is little on any disk
	lowPart  = 20      // less than one part in so many is little on a small disk
)
