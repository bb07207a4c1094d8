package raftstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/metadb"
	walsegment "github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

// full is a disk on which the list of segments does not fit any more.
type full struct {
	metadb.BoltMetaDB
	now bool
}

func (f *full) CommitState(s types.PersistentState) error {
	if f.now {
		return errors.New("no space left on device")
	}
	return f.BoltMetaDB.CommitState(s)
}

// sealed returns a data directory whose only segment is full, without a successor in the list, and
// its last entry.
func sealed(t *testing.T) (dir string, last uint64) {
	t.Helper()
	dir = filled(t, LogStoreWAL, 0)
	path := filepath.Join(dir, walDir)
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	list := &full{}
	w, err := wal.Open(path, wal.WithMetaStore(list), wal.WithSegmentSize(4096))
	if err != nil {
		t.Fatal(err)
	}
	list.now = true
	logs := &checksumLogs{LogStore: w}
	for err == nil {
		last++
		err = logs.StoreLog(&raft.Log{Index: last, Term: 3, Data: fmt.Appendf(nil, "entry %d", last)})
	}
	if !errors.Is(err, wal.ErrSealed) {
		t.Fatalf("write: got %v, want %v", err, wal.ErrSealed)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, last - 1
}

// A peer that died between filling a segment and adding the next one to the list continues.
// raft-wal alone would refuse all writes.
func TestInterruptedRotationIsFinished(t *testing.T) {
	dir, last := sealed(t)
	for range 2 {
		opened(t, dir, "", func(s *Stores) {
			last++
			if err := s.Logs.StoreLog(&raft.Log{Index: last, Term: 3, Data: fmt.Appendf(nil, "entry %d", last)}); err != nil {
				t.Fatalf("write entry %d: %v", last, err)
			}
		})
	}
	holds(t, dir, LogStoreWAL, entriesTo(1, last))
}

// The same for a peer that died while it wrote the last entries of a segment: they were not
// acknowledged, and are gone.
func TestInterruptedSealIsErased(t *testing.T) {
	for name, interrupt := range map[string]func([]byte, string) []byte{
		"a part of the entry":  func(b []byte, text string) []byte { b[strings.LastIndex(string(b), text)] ^= 1; return b },
		"the end of the index": func(b []byte, _ string) []byte { return b[:len(b)-12] }, // no space on the disk
	} {
		t.Run(name, func(t *testing.T) { sealInterrupted(t, interrupt) })
	}
}

func sealInterrupted(t *testing.T, interrupt func(data []byte, text string) []byte) {
	t.Helper()
	dir, last := sealed(t)
	eachSegment(t, dir, func(path string) error {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(path, interrupt(data, fmt.Sprintf("entry %d", last)), 0o600)
	})
	opened(t, dir, "", func(s *Stores) {
		for i := last; i < last+3; i++ {
			if err := s.Logs.StoreLog(&raft.Log{Index: i, Term: 3, Data: fmt.Appendf(nil, "entry %d", i)}); err != nil {
				t.Fatalf("write entry %d: %v", i, err)
			}
		}
	})
	holds(t, dir, LogStoreWAL, entriesTo(1, last+2))
}

// A segment that was created on a full disk has not its full size. It is created again, because
// a segment of less than its full size counts as truncated.
func TestShortSegmentIsCreatedAgain(t *testing.T) {
	dir := filled(t, LogStoreWAL, 0)
	eachSegment(t, dir, func(path string) error { return os.Truncate(path, 4096) })
	opened(t, dir, "", func(*Stores) {})
	eachSegment(t, dir, func(path string) error {
		st, err := os.Stat(path)
		if err == nil && st.Size() != testSegmentSize {
			err = fmt.Errorf("got %d bytes, want %d", st.Size(), testSegmentSize)
		}
		return err
	})
}

// Damage in the middle of the last segment is refused even if the low-water mark is below it.
// raft-wal would take it for the end.
func TestDamageInTheMiddleIsRefused(t *testing.T) {
	for name, damage := range map[string]func([]byte, int) []byte{
		"the header of a frame": func(b []byte, at int) []byte {
			b[strings.LastIndexByte(string(b[:at]), walsegment.FrameEntry)] = 0x77
			return b
		},
		"zeros":     func(b []byte, at int) []byte { clear(b[at-20 : at+20]); return b },
		"truncated": func(b []byte, at int) []byte { return b[:at] },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filled(t, LogStoreWAL, 20)
			bolt, err := raftboltdb.New(raftboltdb.Options{Path: filepath.Join(dir, raftFile)})
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(bolt.SetUint64(keyLogLowWater, 1), bolt.Close()); err != nil { // as after a crash
				t.Fatal(err)
			}
			opened(t, copied(t, dir), "", func(*Stores) {})
			eachSegment(t, dir, func(path string) error {
				data, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				return os.WriteFile(path, damage(data, strings.Index(string(data), "entry 10")), 0o600)
			})
			s, err := Open(storeConfig(dir, ""))
			if err == nil {
				_ = s.Close()
				t.Fatal("open: got no error")
			}
			for _, want := range []string{errLogDamaged.Error(), ".wal", DamageAdvice} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error: want %q in it, got %v", want, err)
				}
			}
		})
	}
}

func copied(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

// A peer whose segments cannot be written ends: raft-wal does not recover until it is opened again.
func TestPeerEndsIfSegmentsCannotBeWritten(t *testing.T) {
	dir, last := sealed(t)
	bolt, err := raftboltdb.New(raftboltdb.Options{Path: filepath.Join(dir, raftFile)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = bolt.Close() }()
	w, err := wal.Open(filepath.Join(dir, walDir)) // without the repair
	if err != nil {
		t.Fatal(err)
	}
	guard := newDiskGuard()
	guard.stand = runtime.Goexit
	f := &guardedLogs{&walLogs{WAL: w, bolt: bolt}, guard.stop}
	go func() { _ = f.StoreLog(&raft.Log{Index: last + 1, Term: 3}) }()
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
	defer stop()
	if err := guard.watch(ctx); !errors.Is(err, ErrDisk) || !strings.Contains(err.Error(), "write entry") {
		t.Errorf("error of the peer: got %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.StoreLog(&raft.Log{Index: last + 1, Term: 3}); !errors.Is(err, wal.ErrClosed) {
		t.Errorf("write after the end: got %v, want %v", err, wal.ErrClosed)
	}
}
