package fault

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"

	"go.etcd.io/bbolt"

	"github.com/holdfast-metal/holdfast/test/robustness/harness"
)

// log describes the file of a log.
type log struct {
	name string
	used int64   // bytes in use, from its beginning
	last []int64 // positions of all copies of the last entry: only bolt knows which one counts
	size int     // of the last entry
	// unseen is the index of the last entry if its loss looks like a write interrupted by a
	// crash, so that no peer can notice it; otherwise 0.
	unseen uint64
}

// readLog finds the end of a peer's log, in any store.
func readLog(dataDir string) (*log, error) {
	if dir := harness.Segments(dataDir); dir != "" {
		return readSegments(dir)
	}
	return readBolt(filepath.Join(dataDir, "raft.db"))
}

func readBolt(name string) (*log, error) {
	l := &log{name: name}
	db, err := bbolt.Open(name, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		return nil, fmt.Errorf("read log: %w", err)
	}
	var last []byte
	err = db.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte("logs"))
		if b == nil {
			return errors.New("no entries")
		}
		l.used = tx.Size()
		_, v := b.Cursor().Last()
		last = bytes.Clone(v)
		return nil
	})
	if err = errors.Join(err, db.Close()); err != nil {
		return nil, fmt.Errorf("read log %s: %w", name, err)
	}
	if err := l.find(last); err != nil {
		return nil, err
	}
	return l, nil
}
