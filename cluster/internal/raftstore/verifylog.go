package raftstore

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	walsegment "github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"

	"github.com/holdfast-metal/holdfast/cluster/internal/segment"
)

// entries verifies the entries of a log, oldest first.
type entries struct {
	v           *verifier
	first, last uint64
	term        uint64 // of the last entry
}

// add verifies the next entry. Its checksum is in its extensions.
func (e *entries) add(index uint64, l *raft.Log) error {
	expected := e.last + 1
	if e.last == 0 || index > e.last && index <= e.v.snapshot+1 { // an installed snapshot replaces what is before it
		expected = min(index, e.v.snapshot+1)
	}
	_, whole := intact(l)
	switch {
	case index != expected:
		return &missingError{expected, index - 1}
	case l.Index != index:
		return fmt.Errorf("it is entry %d", l.Index)
	case !whole:
		return errChecksum
	case l.Term < e.term:
		return fmt.Errorf("it has term %d, the one before has term %d", l.Term, e.term)
	case l.Term > e.v.term:
		return fmt.Errorf("it has term %d, but the stable store has term %d", l.Term, e.v.term)
	}
	if e.first == 0 {
		e.first = index
	}
	e.last, e.term = index, l.Term
	return nil
}

// missingError means that entries are missing.
type missingError struct{ from, to uint64 }

// Error implements error.
func (e *missingError) Error() string {
	return fmt.Sprintf("entries %d to %d are missing", e.from, e.to)
}

func (e *entries) String() string {
	if e.last == 0 {
		return "no entry"
	}
	return fmt.Sprintf("entries %d to %d", e.first, e.last)
}

// log verifies every entry of the log and that none is missing.
func (v *verifier) log() (out Verified) {
	out = Verified{Store: "log", File: raftFile}
	defer caught(&out.Damage)
	e := &entries{v: v}
	is, err := logStoreOf(v.bolt)
	switch {
	case err != nil:
		out.Damage = err
	case is == LogStoreBolt:
		v.boltLog(&out, e)
	default:
		v.walLog(&out, e)
	}
	return out
}

func (v *verifier) boltLog(out *Verified, e *entries) {
	first, err := v.bolt.FirstIndex()
	last, err2 := v.bolt.LastIndex()
	if err := errors.Join(err, err2); err != nil {
		out.Damage = err
		return
	}
	for i := first; last > 0 && i <= last; i++ {
		var l raft.Log
		err := v.bolt.GetLog(i, &l)
		if errors.Is(err, raft.ErrLogNotFound) {
			continue
		}
		if err == nil {
			err = e.add(i, &l)
		}
		if gap, ok := errors.AsType[*missingError](err); ok {
			out.Index, out.Damage = gap.from, gap
			return
		}
		if err != nil {
			out.Index, out.Damage = i, fmt.Errorf("entry %d is damaged: %w", i, err)
			return
		}
	}
	out.Contents = e.String()
}

func (v *verifier) walLog(out *Verified, e *entries) {
	out.File = filepath.Join(walDir, walMeta)
	dir := filepath.Join(v.cfg.Dir, walDir)
	state, err := segment.Load(dir)
	if err != nil {
		out.Damage = err
		return
	}
	lowWater, err := number(v.bolt, keyLogLowWater)
	if err != nil {
		out.Damage = err
		return
	}
	torn := int64(0)
	for i, info := range state.Segments {
		out.File = filepath.Join(walDir, walsegment.FileName(info))
		if out.Index, torn, err = walSegment(dir, info, i == len(state.Segments)-1, e); err != nil {
			out.Damage = err
			return
		}
	}
	if e.last < lowWater {
		out.Index, out.Damage = e.last+1, fmt.Errorf("it ends with entry %d, but had entry %d", e.last, lowWater)
		return
	}
	out.File, out.Contents = walDir, fmt.Sprintf("%s, segments: %d", e, len(state.Segments))
	if torn > 0 {
		out.Contents += fmt.Sprintf(", then an interrupted write of %d bytes", torn)
	}
}

// walSegment verifies a segment. It returns the first damaged entry, or the bytes of an interrupted
// write at the end.
func walSegment(dir string, info types.SegmentInfo, tail bool, e *entries) (damaged uint64, torn int64, err error) {
	c, err := segment.Read(dir, info, func(index uint64, encoded []byte) error {
		var l raft.Log
		if err := (&wal.BinaryCodec{}).Decode(encoded, &l); err != nil {
			return err
		}
		return e.add(index, &l)
	})
	if errors.Is(err, segment.ErrMissing) && tail && e.last+1 == info.BaseIndex { // a crash came before the first write
		return 0, 0, nil
	}
	if gap, ok := errors.AsType[*missingError](err); ok {
		return gap.from, 0, gap
	}
	if damage, ok := errors.AsType[*segment.DamageError](err); ok {
		return damage.Index, 0, err
	}
	if err != nil {
		return info.MinIndex, 0, err
	}
	if c.Torn > 0 {
		torn = c.Torn - c.End
	}
	return 0, torn, nil
}
