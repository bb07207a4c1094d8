package fault

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"go.etcd.io/bbolt"
)

// log is what is known of a log's file.
type log struct {
	used int64   // bytes that bolt has given out
	last []int64 // where the last entry stands: every copy of it, for only bolt knows which one counts
	size int     // of the last entry
}

func readLog(name string) (*log, error) {
	l := &log{}
	db, err := bbolt.Open(name, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		return nil, fmt.Errorf("read log: %w", err)
	}
	var last []byte
	err = db.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte("logs"))
		if b == nil {
			return errors.New("it has no entries")
		}
		l.used = tx.Size()
		_, v := b.Cursor().Last()
		last = bytes.Clone(v)
		return nil
	})
	if err = errors.Join(err, db.Close()); err != nil {
		return nil, fmt.Errorf("read log %s: %w", name, err)
	}
	all, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	l.size = len(last)
	for at := 0; len(last) > 0; at++ {
		i := bytes.Index(all[at:], last)
		if i < 0 {
			break
		}
		at += i
		l.last = append(l.last, int64(at))
	}
	if len(l.last) == 0 {
		return nil, fmt.Errorf("read log %s: its last entry is nowhere", name)
	}
	return l, nil
}
