package fsm

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

// Snapshot is the state at one index. It can be written while the FSM continues.
type Snapshot struct{ state *state }

// Snapshot takes a snapshot in constant time. It fails once the FSM has halted, because the
// snapshot would cover a command that was not understood.
func (f *FSM) Snapshot() (*Snapshot, error) {
	if err := f.HaltError(); err != nil {
		return nil, fmt.Errorf("take snapshot: %w", err)
	}
	return &Snapshot{state: f.View().state}, nil
}

// Snapshot returns the state of a view as a snapshot.
func (v *View) Snapshot() *Snapshot { return &Snapshot{state: v.state} }

// Index returns the index of the last entry in the snapshot.
func (s *Snapshot) Index() uint64 { return s.state.meta.GetAppliedIndex() }

// WriteTo streams the snapshot: a header with the applied index, every record as it is
// stored, and a trailer with the count and checksum.
func (s *Snapshot) WriteTo(w io.Writer) (int64, error) {
	out := &countingWriter{w: w}
	buf := bufio.NewWriterSize(out, 1<<20)
	sum, trailer := xxhash.New(), &internalv1.SnapshotTrailer{}
	summed := io.MultiWriter(buf, sum) // all except the trailer
	write := protodelim.MarshalOptions{}
	header := &internalv1.SnapshotHeader{Format: snapshotFormat, Meta: s.state.meta}
	if _, err := write.MarshalTo(summed, header); err != nil {
		return out.n, fmt.Errorf("write snapshot header: %w", err)
	}
	var row []byte
	for _, t := range s.state.tables() {
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

// Restore replaces the state with a snapshot. It fails and changes nothing if the snapshot is
// damaged or newer than this build, or if the FSM has halted.
func (f *FSM) Restore(r io.Reader) error {
	s, _, err := readSnapshot(r, true)
	if err != nil {
		return fmt.Errorf("restore snapshot: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.haltErr != nil {
		return fmt.Errorf("restore snapshot: %w", f.haltErr)
	}
	f.state = s
	f.publish()
	return nil
}

// readSnapshot reads a snapshot and returns the number of records in each table. If keep is
// false, it checks the records and returns a state without them.
func readSnapshot(r io.Reader, keep bool) (*state, []TableCount, error) {
	in := newSummingReader(r)
	read := protodelim.UnmarshalOptions{MaxSize: maxRecord}
	var header internalv1.SnapshotHeader
	if err := read.UnmarshalFrom(in, &header); err != nil {
		return nil, nil, fmt.Errorf("read header: %w", wholeness(err))
	}
	if header.GetFormat() != snapshotFormat {
		return nil, nil, fmt.Errorf("format %d is not %d, the one this build reads", header.GetFormat(), snapshotFormat)
	}
	if err := known(header.ProtoReflect()); err != nil {
		return nil, nil, fmt.Errorf("read header: %w: the snapshot is of a newer build", err)
	}
	if l := header.GetMeta().GetFeatureLevel(); l > FeatureLevel {
		return nil, nil, fmt.Errorf("snapshot has feature level %d, this build understands %d: upgrade it",
			l, FeatureLevel)
	}
	if header.GetMeta() == nil {
		return nil, nil, errors.New("snapshot is damaged: its header has no state")
	}
	s := newState()
	s.meta = header.GetMeta()
	rows := newRowReader(in, s, keep)
	n, err := rows.read()
	if err != nil {
		return nil, nil, err
	}
	sum := in.sum.Sum64()
	var trailer internalv1.SnapshotTrailer
	if err := read.UnmarshalFrom(in, &trailer); err != nil {
		return nil, nil, fmt.Errorf("read trailer: %w", wholeness(err))
	}
	if trailer.GetRecords() != n || trailer.GetChecksum() != sum {
		return nil, nil, fmt.Errorf("snapshot is damaged: %d records with checksum %x, its trailer says %d with %x",
			n, sum, trailer.GetRecords(), trailer.GetChecksum())
	}
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		return nil, nil, errors.New("snapshot is damaged: it goes on after its end")
	}
	rows.build()
	return s, rows.counts(), nil
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
