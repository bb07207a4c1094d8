package backup

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

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
		return fmt.Errorf("it is damaged: its content has the SHA-256 %x, but its end says %x: use another copy", want, got)
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
