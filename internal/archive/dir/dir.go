// Package dir is an archive in a directory. Peers on several hosts need one that all of them see,
// such as NFS.
//
// It makes directories with mode 0700 and files with 0600, and removes nothing but what it is told
// to.
package dir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"github.com/google/uuid"

	"github.com/holdfast-metal/holdfast/internal/archive"
)

// Store is an archive in a directory.
type Store struct{ root *os.Root }

// Open opens the directory, which it makes if need be. Close it.
func Open(directory string) (*Store, error) {
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return nil, fmt.Errorf("make the archive: %w", err)
	}
	root, err := os.OpenRoot(directory)
	if err != nil {
		return nil, fmt.Errorf("open the archive: %w", err)
	}
	return &Store{root: root}, nil
}

// Close lets the directory go.
func (s *Store) Close() error { return s.root.Close() }

// Put writes an object: whole and on disk, or not at all.
func (s *Store) Put(_ context.Context, name string, data []byte) (err error) {
	if err := archive.CheckName(name); err != nil {
		return err
	}
	folder := path.Dir(name)
	if err := s.root.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("make a folder of the archive: %w", err)
	}
	tmp := path.Join(folder, ".new-"+uuid.NewString())
	f, err := s.root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write %s to the archive: %w", name, err)
	}
	defer func() {
		if err != nil {
			_ = s.root.Remove(tmp) // what is left of it is in nobody's way
		}
	}()
	_, err = f.Write(data)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write %s to the archive: %w", name, err)
	}
	// failpoint: archive-object-synced
	if err := s.root.Rename(tmp, name); err != nil {
		return fmt.Errorf("put %s in its place: %w", name, err)
	}
	return s.sync(folder, "runs", ".")
}

// sync puts on disk what directories hold.
func (s *Store) sync(directories ...string) error {
	for _, d := range directories {
		f, err := s.root.Open(d)
		if err != nil {
			return fmt.Errorf("open folder %s of the archive: %w", d, err)
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return fmt.Errorf("sync folder %s of the archive: %w", d, err)
		}
	}
	return nil
}

// Get reads an object; archive.ErrNotFound when there is none.
func (s *Store) Get(_ context.Context, name string) ([]byte, error) {
	if err := archive.CheckName(name); err != nil {
		return nil, err
	}
	data, err := s.root.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read %s in %s: %w", name, s.root.Name(), archive.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s in the archive: %w", name, err)
	}
	return data, nil
}

// Remove removes a folder with all that is in it. One that is gone is fine.
func (s *Store) Remove(_ context.Context, folder string) error {
	if err := archive.CheckName(folder); err != nil {
		return err
	}
	if err := s.root.RemoveAll(path.Clean(folder)); err != nil {
		return fmt.Errorf("remove %s from the archive: %w", folder, err)
	}
	// The state says next that it is gone: it must not be back after a power cut.
	if err := s.sync("runs"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
