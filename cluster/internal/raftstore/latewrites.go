package raftstore

import (
	"errors"
	"math"
	"slices"
	"sync"

	"github.com/hashicorp/raft"
)

// errEnded means that the store is being closed.
var errEnded = errors.New("the raft log is closed")

// lateWrites is a LogStore that lets a leader send entries to its followers while it writes them.
// Raft itself sends them afterwards, so a command would take two syncs in sequence. An entry that
// is not written yet can already be read.
//
// Raft takes an entry for one that is on this disk as soon as StoreLogs returns. That is harmless
// if Raft also needs the answer of another voter before it commits the entry, and if it gets that
// answer only once the entry is on this disk: see synced, and package transport.
type lateWrites struct {
	raft.LogStore

	mu      sync.Mutex
	pending []*raft.Log   // successive entries that are not on disk yet
	writing bool          // a goroutine writes them
	err     error         // the store is closed, or has failed
	written chan struct{} // closed and replaced after each write
	// may reports whether Raft needs other voters to commit an entry that it stores now: it leads,
	// and there are any. Until it is set, nothing is late.
	may func() bool
}

func newLateWrites(s raft.LogStore) *lateWrites {
	return &lateWrites{LogStore: s, written: make(chan struct{}), may: func() bool { return false }}
}

// synced reports whether the entries up to an index are on disk. If not, the channel is closed
// after the next write.
func (s *lateWrites) synced(index uint64) (bool, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.pending) == 0 || index < s.pending[0].Index, s.written
}

// settle blocks until the entries up to an index are on disk. It does not wait for later ones:
// under load there are always some.
func (s *lateWrites) settle(index uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.err == nil && len(s.pending) > 0 && s.pending[0].Index <= index {
		s.await()
	}
	return s.err
}

// end blocks until no write runs, and refuses new ones.
func (s *lateWrites) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.writing {
		s.await()
	}
	if s.err == nil {
		s.err = errEnded
	}
}

// await releases the lock until the running write has ended.
func (s *lateWrites) await() {
	written := s.written
	s.mu.Unlock()
	<-written
	s.mu.Lock()
}

// StoreLog implements raft.LogStore.
func (s *lateWrites) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore. A change of the configuration is never late: with it, this
// voter may become the only one.
func (s *lateWrites) StoreLogs(logs []*raft.Log) error {
	config := func(l *raft.Log) bool { return l.Type == raft.LogConfiguration }
	s.mu.Lock()
	may, n := s.may, len(s.pending)
	// After an installed snapshot there may be a hole, and pending has none.
	successive := n == 0 || len(logs) == 0 || logs[0].Index == s.pending[n-1].Index+1
	s.mu.Unlock()
	if successive && may() && !slices.ContainsFunc(logs, config) {
		return s.later(logs)
	}
	if err := s.settle(math.MaxUint64); err != nil {
		return err
	}
	return s.LogStore.StoreLogs(logs)
}

func (s *lateWrites) later(logs []*raft.Log) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	s.pending = append(s.pending, logs...)
	if !s.writing && len(logs) > 0 {
		s.writing = true
		go s.write() // ends when nothing is pending
	}
	return nil
}

// write writes what is pending.
func (s *lateWrites) write() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.pending) > 0 && s.err == nil {
		batch := s.pending
		s.mu.Unlock()
		err := s.LogStore.StoreLogs(batch)
		s.mu.Lock()
		if err == nil {
			s.pending = slices.Clone(s.pending[len(batch):]) // frees the batch
		}
		s.err = err
		close(s.written)
		s.written = make(chan struct{})
	}
	s.writing = false
}

// GetLog implements raft.LogStore.
func (s *lateWrites) GetLog(index uint64, l *raft.Log) error {
	s.mu.Lock()
	if n := len(s.pending); n > 0 && index >= s.pending[0].Index && index <= s.pending[n-1].Index {
		*l = *s.pending[index-s.pending[0].Index]
		s.mu.Unlock()
		return nil
	}
	s.mu.Unlock()
	return s.LogStore.GetLog(index, l)
}

// FirstIndex implements raft.LogStore.
func (s *lateWrites) FirstIndex() (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, err := s.LogStore.FirstIndex()
	if err == nil && first == 0 && len(s.pending) > 0 {
		first = s.pending[0].Index
	}
	return first, err
}

// LastIndex implements raft.LogStore.
func (s *lateWrites) LastIndex() (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.pending); n > 0 {
		return s.pending[n-1].Index, nil
	}
	return s.LogStore.LastIndex()
}

// DeleteRange implements raft.LogStore.
func (s *lateWrites) DeleteRange(from, to uint64) error {
	if err := s.settle(to); err != nil {
		return err
	}
	return s.LogStore.DeleteRange(from, to)
}

// IsMonotonic implements raft.MonotonicLogStore.
func (s *lateWrites) IsMonotonic() bool { return monotonic(s.LogStore) }
