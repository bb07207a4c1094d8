// Package archive keeps the steps and logs of old runs outside the cluster: it makes an object of a
// run and reads it back. Where objects lie is up to the stores below it.
//
// It knows nothing of when a run is archived (executor) and of who may read it (server), and it
// must not decide either.
package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// ErrNotFound is what a store says of an object that it does not have.
var ErrNotFound = errors.New("the archive has no such object")

// maxObject bounds an object, opened: far above what a run can have (fsm.MaxRunLog and its steps).
const maxObject = 256 << 20

// Object is a run as the archive keeps it.
type Object struct {
	Name   string // runs/ID/SUM.zst: who writes the same run again overwrites nothing but the same bytes
	Data   []byte
	SHA256 []byte
}

// runOK is what a run's id may be as a part of a path.
var runOK = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$`)

// Folder is where all objects of a run lie, with the slash at its end.
func Folder(runID string) (string, error) {
	if !runOK.MatchString(runID) {
		return "", fmt.Errorf("name the folder of run %q: want letters, digits, '.', '_', '-' and ':'", runID)
	}
	return "runs/" + runID + "/", nil
}

// Seal makes the object of a run and the blocks of its log.
func Seal(run *holdfastv1.Run, log []*internalv1.LogBlock) (Object, error) {
	folder, err := Folder(run.GetRunId())
	if err != nil {
		return Object{}, err
	}
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(&internalv1.ArchivedRun{Run: run, Log: log})
	if err != nil {
		return Object{}, fmt.Errorf("encode run %s for the archive: %w", run.GetRunId(), err)
	}
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return Object{}, fmt.Errorf("make zstd encoder: %w", err)
	}
	data := enc.EncodeAll(raw, nil)
	sum := sha256.Sum256(data)
	return Object{Name: folder + hex.EncodeToString(sum[:]) + ".zst", Data: data, SHA256: sum[:]}, nil
}

// Open reads an object, and refuses one that is not what was written.
func Open(data, sum []byte) (*internalv1.ArchivedRun, error) {
	if got := sha256.Sum256(data); !bytes.Equal(got[:], sum) {
		return nil, fmt.Errorf("read an object of %d bytes: its SHA-256 is %x, what was archived had %x", len(data), got, sum)
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxObject))
	if err != nil {
		return nil, fmt.Errorf("make zstd decoder: %w", err)
	}
	defer dec.Close()
	raw, err := dec.DecodeAll(data, nil)
	if err != nil {
		return nil, fmt.Errorf("decompress an archived run: %w", err)
	}
	out := &internalv1.ArchivedRun{}
	if err := proto.Unmarshal(raw, out); err != nil {
		return nil, fmt.Errorf("decode an archived run: %w", err)
	}
	return out, nil
}

// CheckName refuses names that are not below the archive: objects are runs/ID/SUM.zst, folders
// runs/ID/.
func CheckName(name string) error {
	parts := strings.Split(name, "/")
	if len(parts) != 3 || parts[0] != "runs" || !runOK.MatchString(parts[1]) || parts[2] != "" && !runOK.MatchString(parts[2]) {
		return fmt.Errorf("name %q: want runs/ID/SUM.zst", name)
	}
	return nil
}
