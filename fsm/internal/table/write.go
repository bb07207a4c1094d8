package table

import (
	"bufio"
	"bytes"
	"fmt"
	"io"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// yieldRows is the number of rows after which a reader or writer of a snapshot yields its
// processor. If all processors are busy, other goroutines would otherwise wait for 10 ms,
// until the scheduler preempts it. Writes and heartbeats are among them.
const yieldRows = 64

// Write streams a snapshot: a header with the applied index, every record as it is
// stored, and a trailer with the count and checksum. It returns the number of bytes.
func Write(w io.Writer, meta *internalv1.Meta, tables []Rows) (int64, error) {
	out := &countingWriter{w: w}
	buf := bufio.NewWriterSize(out, 1<<20)
	err := writeAll(meta, tables, func(p *page) error {
		_, err := buf.Write(p.raw)
		return err
	})
	if err == nil {
		err = buf.Flush()
	}
	if err != nil {
		return out.n, fmt.Errorf("write snapshot: %w", err)
	}
	return out.n, nil
}

// WritePacked writes the same stream in compressed parts: decompressed one after the other, they
// are the stream. pack compresses a part. Pages keep their compressed form, so pack must be the
// same function each time.
func WritePacked(w io.Writer, meta *internalv1.Meta, tables []Rows, pack func(raw []byte) []byte) error {
	err := writeAll(meta, tables, func(p *page) error {
		packed := p.packed.Load()
		if packed == nil {
			b := pack(p.raw)
			packed = &b
			p.packed.Store(packed)
		}
		_, err := w.Write(*packed)
		return err
	})
	if err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	return nil
}

// writeAll calls write with the parts of a snapshot, one after the other.
func writeAll(meta *internalv1.Meta, tables []Rows, write func(*page) error) error {
	sum, trailer := xxhash.New(), &internalv1.SnapshotTrailer{}
	summed := func(p *page) error {
		_, _ = sum.Write(p.raw) // a hash never fails
		trailer.Records += uint64(p.rows)
		return write(p)
	}
	if err := writeMessage(&internalv1.SnapshotHeader{Format: snapshotFormat, Meta: meta}, summed); err != nil {
		return fmt.Errorf("header: %w", err)
	}
	for _, t := range tables {
		if err := t.pages(summed); err != nil {
			return fmt.Errorf("table %s after record %d: %w", t.Name(), trailer.GetRecords(), err)
		}
	}
	// An empty record announces the trailer.
	if err := writeMessage(&internalv1.SnapshotRecord{}, summed); err != nil {
		return fmt.Errorf("end: %w", err)
	}
	trailer.Checksum = sum.Sum64()
	if err := writeMessage(trailer, write); err != nil {
		return fmt.Errorf("trailer: %w", err)
	}
	return nil
}

// writeMessage writes a message that is not in a table.
func writeMessage(m proto.Message, write func(*page) error) error {
	var raw bytes.Buffer
	if _, err := protodelim.MarshalTo(&raw, m); err != nil {
		return err
	}
	return write(&page{raw: raw.Bytes()})
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
