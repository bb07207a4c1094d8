package fsm

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// snapshotFormat is the version of the stream.
const snapshotFormat = 1

// maxRecord bounds one message of a snapshot, in bytes: larger ones are damage.
const maxRecord = 64 << 20

// Snapshot is the state at one index, ready to be written while the FSM goes on.
type Snapshot struct{ state *state }

// Snapshot takes a snapshot in constant time. It is refused once the FSM has halted: it would pass over what was not understood.
func (f *FSM) Snapshot() (*Snapshot, error) {
	if err := f.HaltError(); err != nil {
		return nil, fmt.Errorf("take snapshot: %w", err)
	}
	return &Snapshot{state: f.View().state}, nil
}

// Snapshot gives the state of a view as a snapshot.
func (v *View) Snapshot() *Snapshot { return &Snapshot{state: v.state} }

// Index gives the index of the last entry in the snapshot.
func (s *Snapshot) Index() uint64 { return s.state.meta.GetAppliedIndex() }

// WriteTo streams the snapshot: a header with the applied index, every record as it is stored, a trailer
// that proves it whole.
func (s *Snapshot) WriteTo(w io.Writer) (int64, error) {
	out := &countingWriter{w: w}
	buf := bufio.NewWriterSize(out, 1<<20)
	sum, trailer := xxhash.New(), &internalv1.SnapshotTrailer{}
	summed := io.MultiWriter(buf, sum) // all but the trailer
	write := protodelim.MarshalOptions{}
	if _, err := write.MarshalTo(summed, &internalv1.SnapshotHeader{Format: snapshotFormat, Meta: s.state.meta}); err != nil {
		return out.n, fmt.Errorf("write snapshot header: %w", err)
	}
	var rec internalv1.SnapshotRecord
	for _, t := range s.state.tables() {
		err := t.each(func(kind internalv1.SnapshotRecord_Table, key string, value []byte) error {
			rec.Table, rec.Key, rec.Value = kind, key, value
			trailer.Records++
			_, err := write.MarshalTo(summed, &rec)
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

// Restore replaces the state by a snapshot's. A snapshot that is damaged, or newer than this build, is an error
// and changes nothing. So is any snapshot once the FSM has halted.
func (f *FSM) Restore(r io.Reader) error {
	s, err := readSnapshot(r)
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

func readSnapshot(r io.Reader) (*state, error) {
	in := &summingReader{Reader: bufio.NewReaderSize(r, 1<<20), sum: xxhash.New()}
	read := protodelim.UnmarshalOptions{MaxSize: maxRecord}
	var header internalv1.SnapshotHeader
	if err := read.UnmarshalFrom(in, &header); err != nil {
		return nil, fmt.Errorf("read header: %w", wholeness(err))
	}
	if header.GetFormat() != snapshotFormat {
		return nil, fmt.Errorf("format %d is not %d, the one this build reads", header.GetFormat(), snapshotFormat)
	}
	if err := known(header.ProtoReflect()); err != nil {
		return nil, fmt.Errorf("read header: %w: the snapshot is of a newer build", err)
	}
	if l := header.GetMeta().GetFeatureLevel(); l > FeatureLevel {
		return nil, fmt.Errorf("snapshot has feature level %d, this build understands %d: upgrade it", l, FeatureLevel)
	}
	if header.GetMeta() == nil {
		return nil, errors.New("snapshot is damaged: its header has no state")
	}
	s := newState()
	s.meta = header.GetMeta()
	n := uint64(0)
	for {
		var rec internalv1.SnapshotRecord
		if err := read.UnmarshalFrom(in, &rec); err != nil {
			return nil, fmt.Errorf("read record %d: %w", n+1, wholeness(err))
		}
		if rec.GetTable() == internalv1.SnapshotRecord_TABLE_UNSPECIFIED {
			break
		}
		n++
		t := s.table(rec.GetTable())
		if t == nil {
			return nil, fmt.Errorf("record %d is of table %d, which this build does not know: upgrade it", n, rec.GetTable())
		}
		if err := t.load(rec.GetKey(), rec.GetValue()); err != nil {
			return nil, err
		}
	}
	sum := in.sum.Sum64()
	var trailer internalv1.SnapshotTrailer
	if err := read.UnmarshalFrom(in, &trailer); err != nil {
		return nil, fmt.Errorf("read trailer: %w", wholeness(err))
	}
	if trailer.GetRecords() != n || trailer.GetChecksum() != sum {
		return nil, fmt.Errorf("snapshot is damaged: %d records with checksum %x, its trailer says %d with %x", n, sum, trailer.GetRecords(), trailer.GetChecksum())
	}
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		return nil, errors.New("snapshot is damaged: it goes on after its end")
	}
	return s, nil
}

// wholeness words the end of a stream that came too early.
func wholeness(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("snapshot is damaged: it ends too early")
	}
	return err
}

// summingReader sums up what is read through it.
type summingReader struct {
	*bufio.Reader
	sum *xxhash.Digest
	one [1]byte
}

func (r *summingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	_, _ = r.sum.Write(p[:n])
	return n, err
}

func (r *summingReader) ReadByte() (byte, error) {
	b, err := r.Reader.ReadByte()
	if err == nil {
		r.one[0] = b
		_, _ = r.sum.Write(r.one[:])
	}
	return b, err
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
