// Package segment reads the segments of a Raft log that hashicorp/raft-wal writes, and verifies
// their checksums. It finds damage that raft-wal takes for an interrupted write. It must not change
// the files.
package segment

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
	"go.etcd.io/bbolt"
)

// ErrMissing means that a file of the log is missing.
var ErrMissing = errors.New("the file is missing")

var errChecksum = errors.New("checksum mismatch")

// DamageError is damage in a segment.
type DamageError struct {
	Index  uint64 // the first damaged entry
	Offset int64  // of its batch, or of what contradicts the file
	Cause  error
}

// Error implements error.
func (e *DamageError) Error() string {
	return fmt.Sprintf("entry %d is damaged: %v (at byte %d)", e.Index, e.Cause, e.Offset)
}

// Unwrap returns the cause.
func (e *DamageError) Unwrap() error { return e.Cause }

// Load returns the list of segments in a directory, oldest first.
func Load(dir string) (state types.PersistentState, err error) {
	path := filepath.Join(dir, metadb.FileName)
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if errors.Is(err, fs.ErrNotExist) {
		return state, ErrMissing
	}
	if err != nil {
		return state, fmt.Errorf("open the list of segments: %w", err)
	}
	err = db.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte(metadb.MetaBucket))
		if b == nil {
			return errors.New("the list of segments is missing")
		}
		if raw := b.Get([]byte(metadb.MetaKey)); raw != nil {
			return json.Unmarshal(raw, &state)
		}
		return nil
	})
	if err = errors.Join(err, db.Close()); err != nil {
		return state, fmt.Errorf("read the list of segments: %w", err)
	}
	return state, nil
}

// Contents is a verified segment.
type Contents struct {
	Last  uint64 // the last entry; the one before the first if there is none
	Batch int64  // where the last complete write begins
	End   int64  // behind the last complete write
	Index int64  // of the index, if the segment is sealed; otherwise zero
	// Torn is the end of an incomplete write, or zero. It was never acknowledged, unless the disk
	// has lost a part of it afterwards, which looks the same.
	Torn  int64
	Short bool // the file has not its full size, and no complete write
	// TornIndex reports whether the incomplete write would have sealed the segment.
	TornIndex bool
}

// Read reads a segment and calls entry, if it is not nil, with each entry that counts. It returns a
// DamageError if the contents are not those that were written.
func Read(dir string, info types.SegmentInfo, entry func(index uint64, encoded []byte) error) (*Contents, error) {
	from, err := os.Open(filepath.Join(dir, segment.FileName(info)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrMissing
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = from.Close() }()
	st, err := from.Stat()
	if err != nil {
		return nil, err
	}
	r := &reader{file: &file{from: from, size: st.Size()}, info: info, next: info.BaseIndex, entry: entry}
	c, err := r.contents()
	if r.file.err != nil { // nothing else that was found then counts
		return nil, r.file.err
	}
	return c, err
}

// reader reads one segment.
type reader struct {
	file    *file
	info    types.SegmentInfo
	next    uint64 // the next entry
	offsets []int64
	entry   func(index uint64, encoded []byte) error
}

// contents reads batch by batch. The first that is not complete ends the segment.
func (r *reader) contents() (*Contents, error) {
	c := &Contents{}
	for {
		b := r.file.batch(c.End)
		if !b.whole && (b.end == 0 || r.next+uint64(len(b.entries)) > r.info.MinIndex) {
			c.Last = r.next - 1
			return c, r.tail(c)
		}
		if c.End == 0 {
			if err := r.header(); err != nil {
				return nil, err
			}
		}
		if err := r.each(b); err != nil {
			return nil, err
		}
		c.Batch, c.End = c.End, b.end
		if b.index.kind != 0 {
			c.Last, c.Index = r.next-1, b.index.at+frameSize
			return c, r.sealed(c, b.index)
		}
	}
}

// header compares the header of the file with the list of segments.
func (r *reader) header() error {
	h := r.file.read(0, headerSize)
	if h == nil || binary.LittleEndian.Uint64(h[8:]) != r.info.BaseIndex ||
		binary.LittleEndian.Uint64(h[16:]) != r.info.ID || binary.LittleEndian.Uint64(h[24:]) != r.info.Codec {
		return &DamageError{r.info.MinIndex, 0, errors.New("the header is another segment's")}
	}
	return nil
}

// each verifies the entries of a batch. Those before MinIndex or after MaxIndex were removed.
func (r *reader) each(b batch) error {
	for _, e := range b.entries {
		gone := r.next < r.info.MinIndex || r.info.MaxIndex > 0 && r.next > r.info.MaxIndex
		if !gone && r.entry != nil {
			if err := r.entry(r.next, r.file.read(e.at+frameSize, e.data)); err != nil && r.file.err == nil {
				return &DamageError{r.next, e.at, err}
			}
		}
		r.offsets = append(r.offsets, e.at)
		r.next++
	}
	return nil
}

// sealed compares the end of a sealed segment with the list of segments, and its index with
// the entries. raft-wal finds entries by that index.
func (r *reader) sealed(c *Contents, index frame) error {
	if !r.info.SealTime.IsZero() && (uint64(c.Index) != r.info.IndexStart || c.Last < r.info.MaxIndex) {
		return &DamageError{min(r.next, r.info.MaxIndex), index.at, errors.New("the index is another segment's")}
	}
	raw := r.file.read(c.Index, index.data)
	for i, at := range r.offsets {
		if len(raw) < 4*(i+1) || int64(binary.LittleEndian.Uint32(raw[4*i:])) != at {
			return &DamageError{r.info.BaseIndex + uint64(i), index.at, errors.New("the index names another place")}
		}
	}
	return nil
}

// tail judges what follows the last complete batch. A write begins only after the one before it is
// on disk. So a complete batch behind an incomplete one proves that the latter was acknowledged and
// is damaged. raft-wal would drop both.
func (r *reader) tail(c *Contents) error {
	switch {
	case !r.info.SealTime.IsZero():
		return &DamageError{r.next, c.End, errChecksum}
	case c.End > 0 && r.file.size < int64(r.info.SizeLimit): // it is created with its full size
		return &DamageError{r.next, r.file.size, errors.New("the file is truncated")}
	}
	last := c.End
	for at := r.file.nonzero(c.End); at < r.file.size; at = r.file.nonzero(at + frameSize) {
		f, ok := r.file.frame(at)
		if ok && f.kind == segment.FrameCommit && r.later(r.file.batch(at+frameSize)) {
			return &DamageError{r.next, c.End, errChecksum}
		}
		last = at + frameSize
	}
	c.Short = r.file.size < int64(r.info.SizeLimit)
	if last > c.End {
		c.Torn, c.TornIndex = min(last, r.file.size), r.file.seals(c.End)
	}
	return nil
}

// later reports whether a batch is complete and has later entries than the next one.
func (r *reader) later(b batch) bool {
	if !b.whole || len(b.entries) == 0 {
		return false
	}
	index, n := binary.Uvarint(r.file.read(b.entries[0].at+frameSize, min(b.entries[0].data, binary.MaxVarintLen64)))
	return n > 0 && index > r.next
}
