package raftstore

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
)

// TestDamagedKeys checks that keys in the wrong order are found before bolt is opened for writing:
// bolt checks the order in its own goroutine, and panics.
func TestDamagedKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), raftFile)
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoFreelistSync: true})
	if err != nil {
		t.Fatal(err)
	}
	key := func(i uint64) []byte { return binary.BigEndian.AppendUint64(nil, 0xabcdef00+i) }
	if err := db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket([]byte("logs"))
		for i := uint64(0); err == nil && i < 100; i++ {
			err = b.Put(key(i), fmt.Append(nil, "entry ", i))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := (&Config{ReadOnly: true}).checkBolt(path); err != nil {
		t.Fatalf("whole file: %v", err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file = bytes.ReplaceAll(file, key(50), make([]byte, 8))
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	err = (&Config{ReadOnly: true}).checkBolt(path)
	if err == nil || !strings.Contains(err.Error(), "bucket logs follows 00000000abcdef31") {
		t.Errorf("file with a key that was overwritten: got %v, want the damage", err)
	}
}
