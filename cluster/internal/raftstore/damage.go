package raftstore

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"
)

// errInUse means that a process has the data directory open.
var errInUse = errors.New("is in use by another process")

func boltError(path string, err error) error {
	if errors.Is(err, bbolterrors.ErrTimeout) {
		return fmt.Errorf("data directory %s %w", filepath.Dir(path), errInUse)
	}
	return fmt.Errorf("open raft log %s: %w", path, err)
}

// checkBolt walks the pages of a bolt file before it is opened for writing, and syncs it. Bolt
// walks them in its own goroutine, where damage would crash the process without a helpful message.
func (c *Config) checkBolt(path string) error {
	err := walkBolt(path)
	if err == nil && !c.ReadOnly {
		return c.resyncBolt(path)
	}
	if damage, ok := errors.AsType[*pageError](err); ok {
		return fmt.Errorf("raft log %s is damaged: %w: %s", path, damage.cause, DamageAdvice)
	}
	return err
}

// pageError is damage in a page of a bolt file.
type pageError struct{ cause error }

// Error implements error.
func (e *pageError) Error() string { return e.cause.Error() }

// walkBolt reads all pages of a bolt file. It returns a pageError if one is damaged.
func walkBolt(path string) error {
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && st.Size() == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open raft log: %w", err)
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return boltError(path, err)
	}
	err = db.View(func(tx *bbolt.Tx) error {
		if want := tx.Size(); st.Size() < want {
			return fmt.Errorf("the file is truncated to %d of %d bytes", st.Size(), want)
		}
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
			var last []byte
			return b.ForEach(func(key, _ []byte) error {
				if last != nil && bytes.Compare(last, key) >= 0 { // bolt checks this, too
					return fmt.Errorf("key %x of bucket %s follows %x", key, name, last)
				}
				last = key
				return nil
			})
		})
	})
	if err = errors.Join(err, db.Close()); err != nil {
		return &pageError{err}
	}
	return nil
}

// DamageAdvice is the remedy in errors about damaged files.
const DamageAdvice = "move the data directory away to rejoin from the other peers; never put a copy back"

// Damage converts a panic over damaged files into an error. Bolt maps its file into memory,
// so even a truncated file causes a fault instead of an error.
func Damage(what string, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%s: the files are damaged: %v: %s", what, p, DamageAdvice)
	}
}

// FaultsPanic turns memory faults of the calling goroutine into panics until the returned
// function is called.
func FaultsPanic() func() {
	old := debug.SetPanicOnFault(true)
	return func() { debug.SetPanicOnFault(old) }
}
