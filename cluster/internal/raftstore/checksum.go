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

var errChecksum = errors.New("checksum mismatch")

// checksumLogs adds a checksum to every entry that is written and verifies it when the
// entry is read. Bolt checks only its own metadata. A flipped bit in an entry would be
// applied by this peer alone, and its state would silently differ from the others'.
type checksumLogs struct {
	raft.LogStore

	// damaged is called with the error if a read entry is damaged. It need not return,
	// because Raft would panic.
	damaged func(error)
	// refused is called with the error if entries must not be removed. Raft only logs it.
	refused func(error)
	// now returns the newest entry that the peer has applied; nil: none. floor is the same as of
	// the last start.
	now   func() uint64
	floor uint64
	noted uint64 // what the files show of it
}

// StoreLog implements raft.LogStore.
func (s *checksumLogs) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore. It copies the entries, because Raft keeps using them.
func (s *checksumLogs) StoreLogs(logs []*raft.Log) error {
	copies, out := make([]raft.Log, len(logs)), make([]*raft.Log, len(logs))
	applied := s.applied()
	for i, l := range logs {
		copies[i] = *l
		copies[i].Extensions = seal(l, l.Index-min(applied, l.Index))
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
	if _, err = s.verify(index, l, err); err == nil {
		l.Extensions = nil
	}
	return err
}

// verify returns how far behind an entry the peer had applied when it was written. err is the
// error of reading it.
func (s *checksumLogs) verify(index uint64, l *raft.Log, err error) (behind uint64, _ error) {
	if err == nil {
		var ok bool
		if behind, ok = intact(l); ok && l.Index == index {
			return behind, nil
		}
		err = errChecksum
	}
	err = fmt.Errorf("%w: read entry %d: %w", errLogDamaged, index, err)
	s.damaged(err)
	return 0, err
}

// IsMonotonic implements raft.MonotonicLogStore.
func (s *checksumLogs) IsMonotonic() bool { return monotonic(s.LogStore) }

// check reads every entry, and raises the floor. Holes are allowed: an installed snapshot replaces
// the entries before it.
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
		var l raft.Log
		err := s.LogStore.GetLog(i, &l)
		if errors.Is(err, raft.ErrLogNotFound) {
			continue
		}
		behind, err := s.verify(i, &l, err)
		if err != nil {
			return err
		}
		s.floor = max(s.floor, i-min(behind, i))
	}
	return nil
}

// seal returns the extensions of an entry: a checksum over everything that determines its effect,
// and how many entries the peer was behind it when it was written (see applied.go).
func seal(l *raft.Log, behind uint64) []byte {
	ext := binary.AppendUvarint(make([]byte, sumSize, sumSize+binary.MaxVarintLen32), behind)
	binary.BigEndian.PutUint64(ext, sum(l, ext[sumSize:]))
	return ext
}

// intact returns the second part of an entry's extensions, and reports whether the checksum fits.
func intact(l *raft.Log) (behind uint64, ok bool) {
	if len(l.Extensions) <= sumSize {
		return 0, false
	}
	rest := l.Extensions[sumSize:]
	behind, n := binary.Uvarint(rest)
	return behind, n == len(rest) && binary.BigEndian.Uint64(l.Extensions) == sum(l, rest)
}

const sumSize = 8

func sum(l *raft.Log, rest []byte) uint64 {
	var head [17]byte
	binary.BigEndian.PutUint64(head[:], l.Index)
	binary.BigEndian.PutUint64(head[8:], l.Term)
	head[16] = byte(l.Type)
	d := xxhash.New()
	_, _ = d.Write(head[:]) // never fails
	_, _ = d.Write(l.Data)
	_, _ = d.Write(rest)
	return d.Sum64()
}
