package raftstore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc64"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/raft"
)

// snapshots verifies the checksums of all snapshots. raft.FileSnapshotStore does the same when it
// opens one, but it writes to the directory.
func (v *verifier) snapshots() Verified {
	const dir = "snapshots"
	out := Verified{Store: "snapshots", File: dir, Contents: "none"}
	all, err := os.ReadDir(filepath.Join(v.cfg.Dir, dir))
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			out.Damage = err
		}
		return out
	}
	n, newest := 0, raft.SnapshotMeta{}
	for _, s := range all {
		if !s.IsDir() || strings.HasSuffix(s.Name(), ".tmp") {
			continue
		}
		file := filepath.Join(dir, s.Name(), "state.bin")
		meta, err := verifySnapshot(filepath.Join(v.cfg.Dir, dir, s.Name()))
		if err != nil && out.Damage == nil {
			out.File, out.Index, out.Damage = file, meta.Index, err
		}
		if n++; meta.Index > newest.Index {
			newest = meta
		}
	}
	if v.snapshot = newest.Index; n > 0 {
		out.Contents = fmt.Sprintf("%d, the newest has index %d and term %d", n, newest.Index, newest.Term)
	}
	return out
}

// verifySnapshot compares the state of a snapshot with the checksum in its metadata.
func verifySnapshot(dir string) (meta raft.SnapshotMeta, err error) {
	var stored struct {
		raft.SnapshotMeta
		CRC []byte
	}
	raw, err := os.ReadFile(filepath.Join(dir, "meta.json"))
	if err != nil {
		return meta, err
	}
	if err := json.Unmarshal(raw, &stored); err != nil {
		return meta, fmt.Errorf("read meta.json: %w", err)
	}
	f, err := os.Open(filepath.Join(dir, "state.bin"))
	if err != nil {
		return stored.SnapshotMeta, err
	}
	sum := crc64.New(crc64.MakeTable(crc64.ECMA))
	_, err = io.Copy(sum, f)
	if err = errors.Join(err, f.Close()); err != nil {
		return stored.SnapshotMeta, err
	}
	if !bytes.Equal(sum.Sum(nil), stored.CRC) {
		return stored.SnapshotMeta, fmt.Errorf("the snapshot of index %d is damaged: checksum mismatch", stored.Index)
	}
	return stored.SnapshotMeta, nil
}
