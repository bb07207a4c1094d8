package raftstore

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"go.etcd.io/bbolt"
)

// fullDisk fails to store numbers.
type fullDisk struct{ raft.StableStore }

func (fullDisk) SetUint64([]byte, uint64) error { return errors.New("no space left on device") }

func TestPeerEndsIfTermCannotBeStored(t *testing.T) {
	guard := newDiskGuard()
	guard.stand = runtime.Goexit
	s := &termStore{StableStore: fullDisk{raft.NewInmemStore()}, guard: guard}
	if err := s.SetUint64(keyLastVoteTerm, 7); err == nil {
		t.Error("store a vote on a full disk: got no error")
	}
	go func() { _ = s.SetUint64(keyCurrentTerm, 7) }() // never returns: raft must not continue
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
	defer stop()
	if err := guard.watch(ctx); !errors.Is(err, ErrDisk) || !strings.Contains(err.Error(), "write term 7: no space left") {
		t.Errorf("error of the peer: got %v", err)
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
			for _, want := range []string{"entry 1", "move it away"} {
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
