package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"
	"github.com/hashicorp/raft"
)

// errLogDamaged means that an entry is not what was written.
var errLogDamaged = errors.New("raft log is damaged")

// summedLogs gives every entry of a log a checksum on its way to the disk, and compares it on the
// way back. Bolt has checksums for its own bookkeeping only: a flipped bit in an entry would be
// applied by this peer, and make it another than the others without anybody knowing.
type summedLogs struct {
	raft.LogStore

	// damaged is called with an error over an entry that was read. Raft would panic, so it need not
	// return.
	damaged func(error)
}

// StoreLog implements raft.LogStore.
func (s *summedLogs) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore. Raft keeps what it has given, so that it is not changed.
func (s *summedLogs) StoreLogs(logs []*raft.Log) error {
	copies, out := make([]raft.Log, len(logs)), make([]*raft.Log, len(logs))
	for i, l := range logs {
		copies[i] = *l
		copies[i].Extensions = sumOf(l)
		out[i] = &copies[i]
	}
	return s.LogStore.StoreLogs(out)
}

// GetLog implements raft.LogStore.
func (s *summedLogs) GetLog(index uint64, l *raft.Log) error {
	err := s.LogStore.GetLog(index, l)
	if errors.Is(err, raft.ErrLogNotFound) {
		return err
	}
	if err == nil && (l.Index != index || string(l.Extensions) != string(sumOf(l))) {
		err = errors.New("it does not match its checksum")
	}
	if err != nil {
		err = fmt.Errorf("%w: read entry %d: %w", errLogDamaged, index, err)
		s.damaged(err)
		return err
	}
	l.Extensions = nil
	return nil
}

// IsMonotonic implements raft.MonotonicLogStore, as the store below says.
func (s *summedLogs) IsMonotonic() bool {
	m, ok := s.LogStore.(raft.MonotonicLogStore)
	return ok && m.IsMonotonic()
}

// check reads every entry. There may be holes: a snapshot that was sent takes the place of what
// came before.
func (s *summedLogs) check() error {
	first, err := s.FirstIndex()
	if err != nil {
		return err
	}
	last, err := s.LastIndex()
	if err != nil || last == 0 {
		return err
	}
	for i := first; i <= last; i++ {
		if err := s.GetLog(i, new(raft.Log)); err != nil && !errors.Is(err, raft.ErrLogNotFound) {
			return err
		}
	}
	return nil
}

// sumOf covers all that decides what an entry does.
func sumOf(l *raft.Log) []byte {
	var head [17]byte
	binary.BigEndian.PutUint64(head[:], l.Index)
	binary.BigEndian.PutUint64(head[8:], l.Term)
	head[16] = byte(l.Type)
	d := xxhash.New()
	_, _ = d.Write(head[:]) // a digest takes everything
	_, _ = d.Write(l.Data)
	return d.Sum(nil)
}
