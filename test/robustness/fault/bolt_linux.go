package fault

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"go.etcd.io/bbolt"
)

// lastEntry finds the offset in a log's file of the value of its last entry.
func lastEntry(name string) (int64, error) {
	db, err := bbolt.Open(name, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		return 0, fmt.Errorf("read log: %w", err)
	}
	var last []byte
	err = db.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte("logs"))
		if b == nil {
			return errors.New("it has no entries")
		}
		_, v := b.Cursor().Last()
		last = bytes.Clone(v)
		return nil
	})
	if err = errors.Join(err, db.Close()); err != nil {
		return 0, fmt.Errorf("read log %s: %w", name, err)
	}
	all, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	at := bytes.LastIndex(all, last)
	if at < 0 || len(last) == 0 {
		return 0, fmt.Errorf("read log %s: its last entry is nowhere", name)
	}
	return int64(at + len(last)/2), nil
}
