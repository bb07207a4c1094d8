// Package archive keeps the steps and logs of old runs outside the cluster. It converts a
// run to an object and back. The stores below it decide where objects are kept.
//
// It does not decide when a run is archived (executor does) or whether a caller may read it
// (server does).
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

// ErrNotFound is returned by a store that does not have the object.
var ErrNotFound = errors.New("the archive has no such object")

// maxObject bounds a decompressed object. It is far above the limits of a run
// (fsm.MaxRunLog and its steps).
const maxObject = 256 << 20

// Object is an archived run.
type Object struct {
	Name   string // runs/ID/SUM.zst, so that a rewrite of the same run only overwrites equal bytes
	Data   []byte
	SHA256 []byte
}

// runOK matches the run ids that may be path segments.
var runOK = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$`)

// Folder returns the folder of all objects of a run, with a trailing slash.
func Folder(runID string) (string, error) {
	if !runOK.MatchString(runID) {
		return "", fmt.Errorf("name the folder of run %q: want letters, digits, '.', '_', '-' and ':'", runID)
	}
	return "runs/" + runID + "/", nil
}

// Seal returns the object of a run and the blocks of its log.
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

// Open returns the archived run in an object. It returns an error if the object has changed
// since it was written.
func Open(data, sum []byte) (*internalv1.ArchivedRun, error) {
	if got := sha256.Sum256(data); !bytes.Equal(got[:], sum) {
		return nil, fmt.Errorf("read an object of %d bytes: SHA-256 is %x, want %x", len(data), got, sum)
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

// CheckName returns an error unless name is an object (runs/ID/SUM.zst) or a folder
// (runs/ID/).
func CheckName(name string) error {
	parts := strings.Split(name, "/")
	if len(parts) != 3 || parts[0] != "runs" || !runOK.MatchString(parts[1]) ||
		parts[2] != "" && !runOK.MatchString(parts[2]) {
		return fmt.Errorf("name %q: want runs/ID/SUM.zst", name)
	}
	return nil
}
