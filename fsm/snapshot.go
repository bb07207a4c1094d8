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

// maxRecord bounds one message of a snapshot, in bytes: larger ones are damage.
const maxRecord = 64 << 20

// yieldRows is after how many rows who writes or reads a snapshot steps back: on a peer whose
// processors are all busy, what waits for one would else wait for 10 ms, which is when the
// scheduler takes it away, and writes and heartbeats are among it.
const yieldRows = 64

// Snapshot is the state at one index, ready to be written while the FSM goes on.
type Snapshot struct{ state *state }

// Snapshot takes a snapshot in constant time. It is refused once the FSM has halted: it would pass
// over what was not understood.
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

// WriteTo streams the snapshot: a header with the applied index, every record as it is stored, a
// trailer that proves it whole.
func (s *Snapshot) WriteTo(w io.Writer) (int64, error) {
	out := &countingWriter{w: w}
	buf := bufio.NewWriterSize(out, 1<<20)
	sum, trailer := xxhash.New(), &internalv1.SnapshotTrailer{}
	summed := io.MultiWriter(buf, sum) // all but the trailer
	write := protodelim.MarshalOptions{}
	if _, err := write.MarshalTo(summed, &internalv1.SnapshotHeader{Format: snapshotFormat, Meta: s.state.meta}); err != nil {
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
	// An empty record tells that the trailer follows.
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

// Restore replaces the state by a snapshot's. A snapshot that is damaged, or newer than this build,
// is an error and changes nothing. So is any snapshot once the FSM has halted.
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

// readSnapshot reads a snapshot and says how many records each table has. When they are not to be
// kept, the state has none of them: they are only checked.
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
		return nil, nil, fmt.Errorf("snapshot has feature level %d, this build understands %d: upgrade it", l, FeatureLevel)
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
		return nil, nil, fmt.Errorf("snapshot is damaged: %d records with checksum %x, its trailer says %d with %x", n, sum, trailer.GetRecords(), trailer.GetChecksum())
	}
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		return nil, nil, errors.New("snapshot is damaged: it goes on after its end")
	}
	rows.build()
	return s, rows.counts(), nil
}

// wholeness words the end of a stream that came too early.
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
