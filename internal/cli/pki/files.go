package pki

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// file is a file to write.
type file struct {
	path string
	data []byte
	mode fs.FileMode
}

// private returns a file that only its owner may read: a key.
func private(path string, data []byte) file { return file{path, data, 0o600} }

// public returns a file that everybody may read: a certificate.
func public(path string, data []byte) file { return file{path, data, 0o644} }

// existsError reports a file that already exists.
type existsError struct{ path, why string }

func (e *existsError) Error() string {
	return fmt.Sprintf("write %s: %s", e.path,
		cmp.Or(e.why, "it is there already, and nothing is overwritten: move it away, or choose another --out"))
}

// ExitCode is that of a conflict.
func (e *existsError) ExitCode() int { return 4 }

// create writes new files, all or none, each atomically. It creates their
// directory (0700) if it is missing.
func create(files ...file) error {
	for _, f := range files {
		if exists(f.path) {
			return &existsError{path: f.path}
		}
	}
	for i, f := range files {
		if err := createOne(f); err != nil {
			for _, done := range files[:i] {
				err = errors.Join(err, os.Remove(done.path))
			}
			return err
		}
	}
	return nil
}

func createOne(f file) (err error) {
	dir := filepath.Dir(f.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(f.path)+".*") // 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	defer func() { err = errors.Join(err, os.Remove(tmp.Name())) }()
	_, err = tmp.Write(f.data)
	if err = errors.Join(err, tmp.Chmod(f.mode), tmp.Sync(), tmp.Close()); err != nil {
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	// Unlike a rename, a link replaces nothing.
	if err := os.Link(tmp.Name(), f.path); errors.Is(err, fs.ErrExist) {
		return &existsError{path: f.path}
	} else if err != nil {
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	return nil
}

func date(t time.Time) string { return t.UTC().Format(time.DateOnly) }

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
