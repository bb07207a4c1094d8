package table

import (
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// snapshotFormat is the version of the stream.
const snapshotFormat = 1

// maxRecord bounds one message of a snapshot, in bytes. A larger one means damage.
const maxRecord = 64 << 20

// Rows is a table or a sequence, without the type of its messages.
type Rows interface {
	Name() string
	Len() int
	Guard()
	stored
}

// stored is the part of Rows that snapshots use.
type stored interface {
	kind() internalv1.SnapshotRecord_Table
	// pages calls emit with all rows as pages, in order, until it returns an error. Pages of rows
	// that did not change since the last call are the same.
	pages(emit func(*page) error) error
	newLoader(keep bool) bulkLoader
}

// Reader reads a snapshot.
type Reader struct {
	in   *summingReader
	read protodelim.UnmarshalOptions
}

// Open reads the header of a snapshot. The caller checks it, and then loads the rows.
func Open(r io.Reader) (*Reader, *internalv1.SnapshotHeader, error) {
	s := &Reader{in: newSummingReader(r), read: protodelim.UnmarshalOptions{MaxSize: maxRecord}}
	header := &internalv1.SnapshotHeader{}
	if err := s.read.UnmarshalFrom(s.in, header); err != nil {
		return nil, nil, fmt.Errorf("read header: %w", cutOff(err))
	}
	if header.GetFormat() != snapshotFormat {
		return nil, nil, fmt.Errorf("format %d is not %d, the one this build reads", header.GetFormat(), snapshotFormat)
	}
	return s, header, nil
}

// Load reads the rows into empty tables, and returns the number of records in each. If keep is
// false, it only checks them.
func (s *Reader) Load(tables []Rows, keep bool) ([]Count, error) {
	rows := newRowReader(s.in, tables, keep)
	n, err := rows.read()
	if err != nil {
		return nil, err
	}
	sum := s.in.sum.Sum64()
	var trailer internalv1.SnapshotTrailer
	if err := s.read.UnmarshalFrom(s.in, &trailer); err != nil {
		return nil, fmt.Errorf("read trailer: %w", cutOff(err))
	}
	if trailer.GetRecords() != n || trailer.GetChecksum() != sum {
		return nil, fmt.Errorf("snapshot is damaged: records: %d with checksum %x, its trailer says %d with %x",
			n, sum, trailer.GetRecords(), trailer.GetChecksum())
	}
	if _, err := s.in.ReadByte(); !errors.Is(err, io.EOF) {
		return nil, errors.New("snapshot is damaged: it goes on after its end")
	}
	rows.build()
	return rows.counts(), nil
}

// cutOff returns a clear error for a stream that ends too early.
func cutOff(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("snapshot is damaged: it ends too early")
	}
	return err
}

// Count is the number of records in a table.
type Count struct {
	Table   string
	Records uint64
}

// keyOrder checks that rows are in ascending key order.
type keyOrder struct {
	any  bool
	last string
}

// next checks the next rows of a table.
func (f *keyOrder) next(table string, rows []incoming) error {
	for _, r := range rows {
		if f.any && r.key <= f.last {
			return fmt.Errorf("snapshot is damaged: record %q of %s comes after %q", r.key, table, f.last)
		}
		f.any, f.last = true, r.key
	}
	return nil
}
