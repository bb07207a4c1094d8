package backup

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
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// A snapshot file is a snapshot of the state with a description. It consists of backupMagic,
// an internalv1.BackupHeader (length-delimited), the compressed stream, and the SHA-256 of
// everything before it. The stream is the output of Snapshot.WriteTo, compressed with zstd
// and cut into frames: a varint with the length, then the bytes; a length of zero ends them.
// The file contains hashes of tokens and sealed secrets, but no key that opens them.
const (
	fileMagic  = "HOLDFAST-SNAPSHOT\n"
	fileFormat = 1
	maxFrame   = 64 << 10 // bytes of a frame, at most
)

// Info is the part of a snapshot file's description that the state does not know.
type Info struct {
	TakenAt *timestamppb.Timestamp
	Peer    string // the peer that writes the file
	Version string // of the peer's build
}

// Write writes a snapshot file.
func Write(s *core.State, w io.Writer, info Info) error {
	meta := s.Meta
	sum := sha256.New()
	out := io.MultiWriter(w, sum)
	if _, err := io.WriteString(out, fileMagic); err != nil {
		return fmt.Errorf("write snapshot file: %w", err)
	}
	h := &internalv1.BackupHeader{
		Format:       fileFormat,
		ClusterId:    meta.GetClusterId(),
		Index:        meta.GetAppliedIndex(),
		Term:         meta.GetAppliedTerm(),
		FeatureLevel: meta.GetFeatureLevel(),
		TakenAt:      info.TakenAt,
		Peer:         info.Peer,
		Version:      info.Version,
		SecretsKeys:  access.SealedUnder(s),
	}
	if _, err := protodelim.MarshalTo(out, h); err != nil {
		return fmt.Errorf("write header of snapshot file: %w", err)
	}
	frames := &frameWriter{w: out}
	z, err := zstd.NewWriter(frames, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return fmt.Errorf("compress snapshot file: %w", err)
	}
	if _, err := table.Write(z, meta, s.Tables()); err != nil {
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
	for chunk := range slices.Chunk(p, maxFrame) {
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

// File is a snapshot file that was read to its end. Its checksum is right, and every
// record in it decodes.
type File struct {
	Header *internalv1.BackupHeader
	State  *core.State
	Tables []table.Count // in the order of the file
}

// CheckSum checks only the checksum of a snapshot file. It is fast, and tells whether the
// file is intact.
func CheckSum(file []byte) error {
	if !bytes.HasPrefix(file, []byte(fileMagic)) {
		return errNoBackup
	}
	end := max(len(fileMagic), len(file)-sha256.Size)
	body, sum := file[:end], file[end:]
	if got := sha256.Sum256(body); !bytes.Equal(got[:], sum) {
		return fmt.Errorf("read snapshot file: it is damaged: its bytes have the SHA-256 %x, it says %x", got, sum)
	}
	return nil
}

var errNoBackup = errors.New("read snapshot file: it is none: it does not begin with " +
	fileMagic[:len(fileMagic)-1])

// Read reads a snapshot file. It fails if the file is damaged, truncated or written by a
// newer build. If keep is false, it checks the records and returns a state without them, in a
// third of the time.
func Read(r io.Reader, keep bool) (*File, error) {
	in := &sumReader{r: bufio.NewReaderSize(r, maxFrame), sum: sha256.New()}
	magic := make([]byte, len(fileMagic))
	if _, err := io.ReadFull(in, magic); err != nil || string(magic) != fileMagic {
		return nil, errNoBackup
	}
	h := &internalv1.BackupHeader{}
	if err := (protodelim.UnmarshalOptions{MaxSize: 1 << 20}).UnmarshalFrom(in, h); err != nil {
		return nil, fmt.Errorf("read header of snapshot file: %w", cutOff(err))
	}
	if h.GetFormat() != fileFormat {
		return nil, fmt.Errorf("read snapshot file: format %d is not %d, the one this build reads",
			h.GetFormat(), fileFormat)
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
	return &File{Header: h, State: s, Tables: tables}, nil
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
		if err == nil && n > maxFrame {
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
