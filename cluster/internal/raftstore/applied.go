package raftstore

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
)

// keyLogApplied is the key in bolt of the newest entry that the peer had applied, as of its last
// mark or graceful stop. Each entry of the log records the same as of its write (see checksumLogs).
var keyLogApplied = []byte("HoldfastLogApplied")

// AppliedError means that the leader's log contradicts entries that this peer has applied, which
// were committed. A leader without them was elected with the vote of a peer that had forgotten
// them, for example one whose data directory had been replaced by an old copy.
type AppliedError struct {
	From    uint64 // the first entry that would be lost
	Applied uint64 // the last entry that this peer has applied
}

// Error implements error.
func (e *AppliedError) Error() string {
	return fmt.Sprintf("the leader's log contradicts entry %d, but this peer has applied the entries up to %d and keeps "+
		"them: another peer was probably started with an old data directory, and acknowledged writes are only here: "+
		"save this data directory, then choose between the two states (docs/runbooks/disk.md)", e.From, e.Applied)
}

// DeleteRange implements raft.LogStore. Raft removes entries from the beginning, from the end if
// the leader has others, or all that a snapshot replaces. It never removes applied entries from
// the end unless a committed entry has been lost.
func (s *checksumLogs) DeleteRange(from, to uint64) error {
	first, err := s.FirstIndex()
	last, err2 := s.LastIndex()
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	if at := s.applied(); to >= last && from > first && from <= at {
		err := &AppliedError{From: from, Applied: at}
		s.refused(err)
		return err
	}
	return s.LogStore.DeleteRange(from, to)
}

// applied returns the newest entry that this peer is known to have applied.
func (s *checksumLogs) applied() uint64 {
	if s.now == nil {
		return s.floor
	}
	return max(s.floor, s.now())
}

// loadApplied raises the floor to what bolt has recorded.
func (s *checksumLogs) loadApplied(bolt *raftboltdb.BoltStore) error {
	at, err := bolt.GetUint64(keyLogApplied)
	if err != nil && !errors.Is(err, raftboltdb.ErrKeyNotFound) {
		return fmt.Errorf("read the applied index: %w", err)
	}
	s.floor = max(s.floor, at)
	s.noted = s.floor
	return nil
}

// noteApplied records the newest entry that the peer has applied, unless the files show it already.
func (s *checksumLogs) noteApplied(bolt *raftboltdb.BoltStore) error {
	at := s.applied()
	if at <= s.noted {
		return nil
	}
	if err := bolt.SetUint64(keyLogApplied, at); err != nil {
		return err
	}
	s.noted = at
	return nil
}

// Replaces returns an error if a snapshot of the leader would replace entries that this peer has
// applied by fewer. A single one may be left from before, when the answer to it was lost. A leader
// that lacks the entries sends it again and again, and then the peer stops.
func (s *Stores) Replaces(index uint64) error {
	at := s.applied()
	if index >= at {
		return nil
	}
	err := &AppliedError{From: index + 1, Applied: at}
	if s.older.again(time.Now()) {
		s.guard.note(err)
	}
	return err
}

// A peer stops at the third older snapshot within this time, which exceeds Raft's longest pause
// between two tries many times.
const (
	maxOlder   = 3
	olderAgain = time.Minute
)

// olderSnaps counts refused snapshots.
type olderSnaps struct {
	mu    sync.Mutex
	since time.Time
	n     int
}

// again counts one, and reports whether the leader keeps sending them.
func (o *olderSnaps) again(now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now.Sub(o.since) > olderAgain {
		o.since, o.n = now, 0
	}
	o.n++
	return o.n >= maxOlder
}

var _ raft.LogStore = (*checksumLogs)(nil)
