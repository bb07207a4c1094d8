package raftstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"
	gometrics "github.com/hashicorp/go-metrics/compat"
	"github.com/hashicorp/raft"
)

// errLogDamaged means that an entry differs from what was written.
var errLogDamaged = errors.New("raft log is damaged")

// checksumLogs adds a checksum to every entry that is written and verifies it when the
// entry is read. Bolt checks only its own metadata. A flipped bit in an entry would be
// applied by this peer alone, and its state would silently differ from the others'.
type checksumLogs struct {
	raft.LogStore

	// damaged is called with the error if a read entry is damaged. It need not return,
	// because Raft would panic.
	damaged func(error)
}

// StoreLog implements raft.LogStore.
func (s *checksumLogs) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore. It copies the entries, because Raft keeps using them.
func (s *checksumLogs) StoreLogs(logs []*raft.Log) error {
	copies, out := make([]raft.Log, len(logs)), make([]*raft.Log, len(logs))
	for i, l := range logs {
		copies[i] = *l
		copies[i].Extensions = checksum(l)
		out[i] = &copies[i]
	}
	defer measureStore(time.Now(), logs)
	return s.LogStore.StoreLogs(out)
}

// measureStore records how long a write of entries took, and their bytes, in any store. Package
// libmetrics exports both with the metrics of Raft.
func measureStore(began time.Time, logs []*raft.Log) {
	bytes := 0
	for _, l := range logs {
		bytes += len(l.Data)
	}
	gometrics.MeasureSince([]string{"raft", "log", "store"}, began)
	gometrics.IncrCounter([]string{"raft", "log", "bytes"}, float32(bytes))
}

// GetLog implements raft.LogStore.
func (s *checksumLogs) GetLog(index uint64, l *raft.Log) error {
	err := s.LogStore.GetLog(index, l)
	if errors.Is(err, raft.ErrLogNotFound) {
		return err
	}
	if err == nil && (l.Index != index || string(l.Extensions) != string(checksum(l))) {
		err = errors.New("checksum mismatch")
	}
	if err != nil {
		err = fmt.Errorf("%w: read entry %d: %w", errLogDamaged, index, err)
		s.damaged(err)
		return err
	}
	l.Extensions = nil
	return nil
}

// IsMonotonic implements raft.MonotonicLogStore.
func (s *checksumLogs) IsMonotonic() bool { return monotonic(s.LogStore) }

// check reads every entry. Holes are allowed: an installed snapshot replaces the entries
// before it.
func (s *checksumLogs) check() error {
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

// checksum covers everything that determines the effect of an entry.
func checksum(l *raft.Log) []byte {
	var head [17]byte
	binary.BigEndian.PutUint64(head[:], l.Index)
	binary.BigEndian.PutUint64(head[8:], l.Term)
	head[16] = byte(l.Type)
	d := xxhash.New()
	_, _ = d.Write(head[:]) // never fails
	_, _ = d.Write(l.Data)
	return d.Sum(nil)
}
