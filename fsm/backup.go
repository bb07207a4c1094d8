package fsm

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm/internal/access"
	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/plans"
	"github.com/holdfast-metal/holdfast/fsm/internal/runlog"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// A snapshot file is a snapshot of the state with a description. It consists of backupMagic,
// an internalv1.BackupHeader (length-delimited), the compressed stream, and the SHA-256 of
// everything before it. The stream is the output of Snapshot.WriteTo, compressed with zstd
// and cut into frames: a varint with the length, then the bytes; a length of zero ends them.
// The file contains hashes of tokens and sealed secrets, but no key that opens them.
const (
	backupMagic  = "HOLDFAST-SNAPSHOT\n"
	backupFormat = 1
	backupFrame  = 64 << 10 // bytes of a frame, at most
)

// BackupInfo is the part of a snapshot file's description that the state does not know.
type BackupInfo struct {
	TakenAt *timestamppb.Timestamp
	Peer    string // the peer that writes the file
	Version string // of the peer's build
}

// WriteBackup writes a snapshot file.
func (s *Snapshot) WriteBackup(w io.Writer, info BackupInfo) error {
	meta := s.state.Meta
	sum := sha256.New()
	out := io.MultiWriter(w, sum)
	if _, err := io.WriteString(out, backupMagic); err != nil {
		return fmt.Errorf("write snapshot file: %w", err)
	}
	h := &internalv1.BackupHeader{
		Format:       backupFormat,
		ClusterId:    meta.GetClusterId(),
		Index:        meta.GetAppliedIndex(),
		Term:         meta.GetAppliedTerm(),
		FeatureLevel: meta.GetFeatureLevel(),
		TakenAt:      info.TakenAt,
		Peer:         info.Peer,
		Version:      info.Version,
		SecretsKeys:  access.SealedUnder(s.state),
	}
	if _, err := protodelim.MarshalTo(out, h); err != nil {
		return fmt.Errorf("write header of snapshot file: %w", err)
	}
	frames := &frameWriter{w: out}
	z, err := zstd.NewWriter(frames, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return fmt.Errorf("compress snapshot file: %w", err)
	}
	if _, err := s.WriteTo(z); err != nil {
		return errors.Join(err, z.Close())
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("compress snapshot file: %w", err)
	}
	if err := frames.end(); err != nil {
		return fmt.Errorf("write snapshot file: %w", err)
	}
	if _, err := w.Write(sum.Sum(nil)); err != nil {
		return fmt.Errorf("write sum of snapshot file: %w", err)
	}
	return nil
}

// frameWriter cuts its input into frames.
type frameWriter struct{ w io.Writer }

func (f *frameWriter) Write(p []byte) (int, error) {
	n := 0
	for chunk := range slices.Chunk(p, backupFrame) {
		if _, err := f.w.Write(binary.AppendUvarint(nil, uint64(len(chunk)))); err != nil {
			return n, err
		}
		m, err := f.w.Write(chunk)
		if n += m; err != nil {
			return n, err
		}
	}
	return n, nil
}

func (f *frameWriter) end() error {
	_, err := f.w.Write([]byte{0})
	return err
}

// Backup is a snapshot file that was read to its end. Its checksum is right, and every record
// in it decodes.
type Backup struct {
	Header *internalv1.BackupHeader
	state  *core.State
	tables []table.Count
}

// ReadBackup reads a snapshot file. It fails if the file is damaged, truncated or written by
// a newer build.
func ReadBackup(r io.Reader) (*Backup, error) { return readBackup(r, true) }

// CheckedBackup describes a snapshot file that was read to its end.
type CheckedBackup struct {
	Header *internalv1.BackupHeader
	Tables []table.Count // in the order of the file
}

// CheckBackup returns an error whenever ReadBackup does, but keeps no records. It takes a
// third of the time and little memory.
func CheckBackup(r io.Reader) (*CheckedBackup, error) {
	b, err := readBackup(r, false)
	if err != nil {
		return nil, err
	}
	return &CheckedBackup{Header: b.Header, Tables: b.tables}, nil
}

// SumBackup checks only the checksum of a snapshot file. It is fast, and tells whether the
// file is intact.
func SumBackup(file []byte) error {
	if !bytes.HasPrefix(file, []byte(backupMagic)) {
		return errNoBackup
	}
	end := max(len(backupMagic), len(file)-sha256.Size)
	body, sum := file[:end], file[end:]
	if got := sha256.Sum256(body); !bytes.Equal(got[:], sum) {
		return fmt.Errorf("read snapshot file: it is damaged: its bytes have the SHA-256 %x, it says %x", got, sum)
	}
	return nil
}

var errNoBackup = errors.New("read snapshot file: it is none: it does not begin with " +
	backupMagic[:len(backupMagic)-1])

func readBackup(r io.Reader, keep bool) (*Backup, error) {
	in := &sumReader{r: bufio.NewReaderSize(r, backupFrame), sum: sha256.New()}
	magic := make([]byte, len(backupMagic))
	if _, err := io.ReadFull(in, magic); err != nil || string(magic) != backupMagic {
		return nil, errNoBackup
	}
	h := &internalv1.BackupHeader{}
	if err := (protodelim.UnmarshalOptions{MaxSize: 1 << 20}).UnmarshalFrom(in, h); err != nil {
		return nil, fmt.Errorf("read header of snapshot file: %w", cutOff(err))
	}
	if h.GetFormat() != backupFormat {
		return nil, fmt.Errorf("read snapshot file: format %d is not %d, the one this build reads",
			h.GetFormat(), backupFormat)
	}
	if err := core.Known(h.ProtoReflect()); err != nil {
		return nil, fmt.Errorf("read header of snapshot file: %w: a newer build has written it", err)
	}
	frames := &frameReader{in: in}
	z, err := zstd.NewReader(frames, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, fmt.Errorf("read snapshot file: %w", cutOff(err))
	}
	defer z.Close()
	s, tables, err := core.ReadSnapshot(z, keep)
	if frames.err != nil {
		err = frames.err // the cause of the decoder's error
	}
	if err != nil {
		return nil, fmt.Errorf("read snapshot file: %w", damaged(err))
	}
	if _, err := io.Copy(io.Discard, frames); err != nil { // up to the end of the frames
		return nil, fmt.Errorf("read snapshot file: %w", cutOff(err))
	}
	if err := in.checkSum(); err != nil {
		return nil, fmt.Errorf("read snapshot file: %w", err)
	}
	if h.GetClusterId() != s.Meta.GetClusterId() || h.GetIndex() != s.Meta.GetAppliedIndex() {
		return nil, errors.New("read snapshot file: it is damaged: its header is of another state than the one in it")
	}
	return &Backup{Header: h, state: s, tables: tables}, nil
}

// cutOff returns a clear error for a file that ends too early.
func cutOff(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it is damaged: it ends too early")
	}
	return err
}

// damaged marks errors of the decoder that mean damage. It returns other errors unchanged.
func damaged(err error) error {
	for _, e := range []error{
		zstd.ErrCRCMismatch, zstd.ErrMagicMismatch, zstd.ErrWindowSizeExceeded,
		zstd.ErrReservedBlockType, zstd.ErrCompressedSizeTooBig, zstd.ErrDecoderSizeExceeded,
	} {
		if errors.Is(err, e) {
			return fmt.Errorf("it is damaged: %w", err)
		}
	}
	if strings.Contains(err.Error(), "corruption detected") { // not all decoder errors are exported
		return fmt.Errorf("it is damaged: %w", err)
	}
	return cutOff(err)
}

// sumReader computes the checksum of the bytes read through it.
type sumReader struct {
	r   *bufio.Reader
	sum hash.Hash
	one [1]byte
}

func (s *sumReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	_, _ = s.sum.Write(p[:n]) // a hash never fails
	return n, err
}

func (s *sumReader) ReadByte() (byte, error) {
	b, err := s.r.ReadByte()
	if err == nil {
		s.one[0] = b
		_, _ = s.sum.Write(s.one[:])
	}
	return b, err
}

// checkSum reads the checksum, compares it with that of the bytes read so far, and requires
// the file to end there.
func (s *sumReader) checkSum() error {
	want := s.sum.Sum(nil)
	got := make([]byte, sha256.Size)
	if _, err := io.ReadFull(s.r, got); err != nil {
		return cutOff(err)
	}
	if string(got) != string(want) {
		return fmt.Errorf("it is damaged: its bytes have the SHA-256 %x, it says %x", want, got)
	}
	if _, err := s.r.ReadByte(); !errors.Is(err, io.EOF) {
		return errors.New("it is damaged: it goes on after its end")
	}
	return nil
}

// frameReader returns the contents of the frames.
type frameReader struct {
	in   *sumReader
	left uint64
	done bool
	err  error
}

func (f *frameReader) Read(p []byte) (int, error) {
	if f.done {
		return 0, io.EOF
	}
	if f.left == 0 {
		n, err := binary.ReadUvarint(f.in)
		if err == nil && n > backupFrame {
			err = fmt.Errorf("it is damaged: a frame of %d bytes", n)
		}
		if err != nil {
			f.err = cutOff(err)
			return 0, f.err
		}
		if n == 0 {
			f.done = true
			return 0, io.EOF
		}
		f.left = n
	}
	n, err := f.in.Read(p[:min(uint64(len(p)), f.left)])
	f.left -= uint64(n)
	if err != nil {
		f.err = cutOff(err)
		return n, f.err
	}
	return n, nil
}

// TableCount is the number of records in a table.
type TableCount = table.Count

// Tables returns the number of records in each table, in the order of the file.
func (b *Backup) Tables() []table.Count { return b.tables }

// View returns the state in the file.
func (b *Backup) View() *View {
	return newView(b.state, runlog.NewCodec(), plans.NewCache(), &readStage{})
}

// ReadStage reads the staged snapshot. While the caller keeps it, a restore need not read it
// again.
func (v *View) ReadStage(restoreID string, chunks uint32) (*Backup, *Error) {
	return stagedBackup(v.state, v.stage, restoreID, chunks)
}

// CheckRestore returns the staged snapshot, or the reason why it cannot be restored now.
// While the caller keeps it, a restore need not read it again.
func (v *View) CheckRestore(c *internalv1.RestoreBackup) (*Backup, *Error) {
	return restorable(v.state, v.stage, c)
}
