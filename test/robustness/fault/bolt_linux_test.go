package fault

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"go.etcd.io/bbolt"
)

// TestReadLog checks that the position of the last entry is found in any store.
func TestReadLog(t *testing.T) {
	want := bytes.Repeat([]byte("the last entry "), 20)
	for _, tt := range []struct {
		name   string
		write  func(dir string) error
		unseen uint64
	}{
		{"bolt", func(dir string) error {
			db, err := bbolt.Open(filepath.Join(dir, "raft.db"), 0o600, nil)
			if err != nil {
				return err
			}
			err = db.Update(func(tx *bbolt.Tx) error {
				b, err := tx.CreateBucket([]byte("logs"))
				if err != nil {
					return err
				}
				return errors.Join(b.Put([]byte{1}, []byte("another entry")), b.Put([]byte{2}, want))
			})
			return errors.Join(err, db.Close())
		}, 0},
		{"segments", func(dir string) error {
			if err := os.Mkdir(filepath.Join(dir, "wal"), 0o700); err != nil {
				return err
			}
			log, err := wal.Open(filepath.Join(dir, "wal"))
			if err != nil {
				return err
			}
			return errors.Join(log.StoreLog(&raft.Log{Index: 1, Data: []byte("another entry")}),
				log.StoreLog(&raft.Log{Index: 2, Data: want}), log.Close())
		}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := tt.write(dir); err != nil {
				t.Fatal(err)
			}
			l, err := readLog(dir)
			if err != nil {
				t.Fatal(err)
			}
			all, err := os.ReadFile(l.name)
			if err != nil {
				t.Fatal(err)
			}
			for _, at := range l.last {
				if got := all[at : at+int64(l.size)]; !bytes.Contains(got, want) {
					t.Errorf("at %d: got %q, want %q", at, got, want)
				}
			}
			if l.used <= l.last[0] || l.used > int64(len(all)) {
				t.Errorf("got %d of %d bytes used, last entry at %d", l.used, len(all), l.last[0])
			}
			if l.unseen != tt.unseen {
				t.Errorf("unseen: got %d, want %d", l.unseen, tt.unseen)
			}
		})
	}
}

// TestAll checks that names are unique and that faults with random durations have valid bounds,
// because an error would appear only during a long test.
func TestAll(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range All() {
		if f.Name() == "" || seen[f.Name()] {
			t.Errorf("fault %q is listed twice or has no name", f.Name())
		}
		seen[f.Name()] = true
	}
}
