package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm/internal/access"
	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// A snapshot file is a snapshot of the state with a description. It consists of fileMagic,
// an internalv1.BackupHeader (length-delimited), the compressed stream, and the SHA-256 of
// everything before it. The stream is the output of Snapshot.WriteTo, compressed with zstd
// and cut into frames: a varint with the length, then the bytes; a length of zero ends them.
// The file contains hashes of tokens and sealed secrets, but no key that opens them.
const (
	fileMagic  = "HOLDFAST-SNAPSHOT\n"
	fileFormat = 1
	maxFrame   = 64 << 10 // bytes of a frame, at most
)

// Info is the part of a snapshot file's description that is not in the state.
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
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return fmt.Errorf("compress snapshot file: %w", err)
	}
	var room []byte
	pack := func(raw []byte) []byte {
		room = z.EncodeAll(raw, room[:0])
		return bytes.Clone(room)
	}
	if err := table.WritePacked(frames, meta, s.Tables(), pack); err != nil {
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

// CheckSum returns an error if the checksum of a snapshot file is wrong. It does not decode the
// file, so it is fast.
func CheckSum(file []byte) error {
	if !bytes.HasPrefix(file, []byte(fileMagic)) {
		return errNoBackup
	}
	end := max(len(fileMagic), len(file)-sha256.Size)
	body, sum := file[:end], file[end:]
	if got := sha256.Sum256(body); !bytes.Equal(got[:], sum) {
		return fmt.Errorf("read snapshot file: it is damaged or incomplete: its content has the SHA-256 %x, "+
			"but its end says %x: use another copy", got, sum)
	}
	return nil
}

var errNoBackup = errors.New("read snapshot file: it is not a snapshot: it does not begin with " +
	fileMagic[:len(fileMagic)-1])
