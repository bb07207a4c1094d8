package table

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// snapshotFormat is the version of the stream.
const snapshotFormat = 1

// maxRecord bounds one message of a snapshot, in bytes. A larger one means damage.
const maxRecord = 64 << 20

// yieldRows is the number of rows after which a reader or writer of a snapshot yields its
// processor. If all processors are busy, other goroutines would otherwise wait for 10 ms,
// until the scheduler preempts it. Writes and heartbeats are among them.
const yieldRows = 64

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
	each(f func(kind internalv1.SnapshotRecord_Table, key string, value []byte) error) error
	newLoader(keep bool) bulkLoader
}

// Write streams a snapshot: a header with the applied index, every record as it is
// stored, and a trailer with the count and checksum. It returns the number of bytes.
func Write(w io.Writer, meta *internalv1.Meta, tables []Rows) (int64, error) {
	out := &countingWriter{w: w}
	buf := bufio.NewWriterSize(out, 1<<20)
	sum, trailer := xxhash.New(), &internalv1.SnapshotTrailer{}
	summed := io.MultiWriter(buf, sum) // all except the trailer
	write := protodelim.MarshalOptions{}
	header := &internalv1.SnapshotHeader{Format: snapshotFormat, Meta: meta}
	if _, err := write.MarshalTo(summed, header); err != nil {
		return out.n, fmt.Errorf("write snapshot header: %w", err)
	}
	var row []byte
	for _, t := range tables {
		err := t.each(func(kind internalv1.SnapshotRecord_Table, key string, value []byte) error {
			trailer.Records++
			row = appendRecord(row[:0], kind, key, value)
			if trailer.Records%yieldRows == 0 {
				runtime.Gosched()
			}
			_, err := summed.Write(row)
			return err
		})
		if err != nil {
			return out.n, fmt.Errorf("write snapshot record %d: %w", trailer.GetRecords(), err)
		}
	}
	// An empty record announces the trailer.
	if _, err := write.MarshalTo(summed, &internalv1.SnapshotRecord{}); err != nil {
		return out.n, fmt.Errorf("write snapshot end: %w", err)
	}
	trailer.Checksum = sum.Sum64()
	if _, err := write.MarshalTo(buf, trailer); err != nil {
		return out.n, fmt.Errorf("write snapshot trailer: %w", err)
	}
	if err := buf.Flush(); err != nil {
		return out.n, fmt.Errorf("write snapshot: %w", err)
	}
	return out.n, nil
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
		return nil, nil, fmt.Errorf("read header: %w", wholeness(err))
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
		return nil, fmt.Errorf("read trailer: %w", wholeness(err))
	}
	if trailer.GetRecords() != n || trailer.GetChecksum() != sum {
		return nil, fmt.Errorf("snapshot is damaged: %d records with checksum %x, its trailer says %d with %x",
			n, sum, trailer.GetRecords(), trailer.GetChecksum())
	}
	if _, err := s.in.ReadByte(); !errors.Is(err, io.EOF) {
		return nil, errors.New("snapshot is damaged: it goes on after its end")
	}
	rows.build()
	return rows.counts(), nil
}

// wholeness returns a clear error for a stream that ends too early.
func wholeness(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("snapshot is damaged: it ends too early")
	}
	return err
}

type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// Count is the number of records in a table.
type Count struct {
	Table   string
	Records uint64
}
