package raftstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"
)

// badDisk fails each write.
type badDisk struct {
	raft.StableStore
	raft.LogStore

	err error
}

func (d badDisk) SetUint64([]byte, uint64) error   { return d.err }
func (d badDisk) Set(_, _ []byte) error            { return d.err }
func (d badDisk) StoreLogs([]*raft.Log) error      { return d.err }
func (d badDisk) DeleteRange(uint64, uint64) error { return d.err }

// TestPeerEndsIfTheDiskFails checks that each write that Raft depends on ends the peer with the
// reason, unless the store is closed.
func TestPeerEndsIfTheDiskFails(t *testing.T) {
	full := &fs.PathError{Op: "write", Path: "/data/raft.db", Err: syscall.ENOSPC}
	for _, tt := range []struct {
		name  string
		err   error
		write func(raft.StableStore, raft.LogStore) error
		want  string
	}{
		{"term", full, func(s raft.StableStore, _ raft.LogStore) error { return s.SetUint64(keyCurrentTerm, 7) },
			"the disk is full: write CurrentTerm 7: write /data/raft.db: no space left on device"},
		{"vote", syscall.EIO, func(s raft.StableStore, _ raft.LogStore) error { return s.Set(keyLastVoteCand, []byte("n1")) },
			"the disk has failed: write LastVoteCand: input/output error"},
		{"entries", full, func(_ raft.StableStore, l raft.LogStore) error { return l.StoreLog(&raft.Log{Index: 9}) },
			"the disk is full: write entry 9 of the raft log: write /data/raft.db: no space left on device"},
		{"compaction", syscall.EDQUOT, func(_ raft.StableStore, l raft.LogStore) error { return l.DeleteRange(3, 9) },
			"the disk is full: remove entry 3 of the raft log: disk quota exceeded"},
		{"closed", wal.ErrClosed,
			func(_ raft.StableStore, l raft.LogStore) error { return l.StoreLog(&raft.Log{Index: 9}) }, ""},
		{"closed bolt", bbolterrors.ErrDatabaseNotOpen,
			func(s raft.StableStore, _ raft.LogStore) error { return s.SetUint64(keyCurrentTerm, 7) }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			guard := newDiskGuard()
			guard.stand = func() {}
			d := badDisk{err: tt.err}
			if err := tt.write(&guardedStable{d, guard}, &guardedLogs{d, guard.stop}); !errors.Is(err, tt.err) {
				t.Errorf("write: got %v, want %v", err, tt.err)
			}
			ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
			if tt.want == "" {
				stop() // it must not report anything
			}
			defer stop()
			err := guard.watch(ctx)
			if tt.want == "" && err == nil {
				return
			}
			if !errors.Is(err, ErrDisk) || fmt.Sprint(err) != tt.want {
				t.Errorf("error of the peer: got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestDamagedEntriesAreRefused(t *testing.T) {
	for _, tc := range []struct {
		name   string
		damage func([]byte) []byte
	}{
		{"a flipped bit", func(b []byte) []byte { i := strings.Index(string(b), "hello"); b[i] ^= 1; return b }},
		{"another entry", func(b []byte) []byte { return []byte(strings.Replace(string(b), "hello", "howdy", 1)) }},
		{"cut", func(b []byte) []byte { return b[:len(b)-3] }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := storeConfig(t.TempDir(), LogStoreBolt)
			s, err := Open(cfg)
			if err != nil {
				t.Fatal(err)
			}
			var got raft.Log
			err = errors.Join(s.Logs.StoreLogs([]*raft.Log{{Index: 1, Term: 1, Data: []byte("hello")},
				{Index: 4, Term: 1, Data: []byte("after a hole")}}),
				s.Close())
			if err != nil {
				t.Fatal(err)
			}
			if s, err = Open(cfg); err != nil {
				t.Fatal("whole: ", err)
			}
			if err := errors.Join(s.Logs.GetLog(1, &got), s.Close()); err != nil || string(got.Data) != "hello" ||
				got.Extensions != nil {
				t.Fatalf("undamaged: got entry 1 %+v, %v", got, err)
			}
			change(t, filepath.Join(cfg.Dir, raftFile), tc.damage)
			if s, err = Open(cfg); err == nil {
				_ = s.Close()
				t.Fatal("open a damaged log: got no error")
			}
			for _, want := range []string{"entry 1", DamageAdvice} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error: want %q in it, got %v", want, err)
				}
			}
			if st, err := os.Stat(filepath.Join(cfg.Dir, raftFile)); err != nil || st.Size() == 0 {
				t.Error("got the damaged log removed, want it kept")
			}
		})
	}
}

// change rewrites the first entry of a log without raft's knowledge.
func change(t *testing.T, path string, how func([]byte) []byte) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte("logs"))
		k, v := b.Cursor().First()
		return b.Put(k, how([]byte(string(v))))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}
