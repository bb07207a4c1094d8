package fault

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"
)

// What is said of a log's last entry is where it stands.
func TestReadLog(t *testing.T) {
	name := filepath.Join(t.TempDir(), "raft.db")
	db, err := bbolt.Open(name, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := bytes.Repeat([]byte("the last entry "), 20)
	err = db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket([]byte("logs"))
		if err != nil {
			return err
		}
		if err := b.Put([]byte{1}, []byte("another entry")); err != nil {
			return err
		}
		return b.Put([]byte{2}, want)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := readLog(name)
	if err != nil {
		t.Fatal(err)
	}
	all, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range l.last {
		if got := all[at : at+int64(l.size)]; !bytes.Equal(got, want) {
			t.Errorf("at %d stands %q, want %q", at, got, want)
		}
	}
	if l.used <= l.last[0] || l.used > int64(len(all)) {
		t.Errorf("bolt uses %d of %d bytes; the last entry is at %d", l.used, len(all), l.last[0])
	}
}

// A fault that is listed twice, or cannot hold, would show only while a cluster breaks.
func TestAll(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range All() {
		if f.Name() == "" || seen[f.Name()] {
			t.Errorf("fault %q is listed twice, or has no name", f.Name())
		}
		seen[f.Name()] = true
	}
}
