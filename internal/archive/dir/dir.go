// Package dir is an archive in a directory. Peers on several hosts need a shared one, such
// as NFS.
//
// It creates directories with mode 0700 and files with 0600, and removes only the folders
// that Remove names.
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

// Open opens the directory and creates it if it does not exist. The caller must close the
// Store.
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

// Close closes the directory.
func (s *Store) Close() error { return s.root.Close() }

// Put writes an object atomically and syncs it to disk.
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
			_ = s.root.Remove(tmp) // a leftover does no harm
		}
	}()
	_, err = f.Write(data)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write %s to the archive: %w", name, err)
	}
	// failpoint: archive-object-synced
	if err := s.root.Rename(tmp, name); err != nil {
		return fmt.Errorf("rename the new file to %s: %w", name, err)
	}
	return s.sync(folder, "runs", ".")
}

// sync writes directory entries to disk.
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

// Get returns an object, or archive.ErrNotFound.
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

// Remove removes a folder and its contents. It succeeds if the folder does not exist.
func (s *Store) Remove(_ context.Context, folder string) error {
	if err := archive.CheckName(folder); err != nil {
		return err
	}
	if err := s.root.RemoveAll(path.Clean(folder)); err != nil {
		return fmt.Errorf("remove %s from the archive: %w", folder, err)
	}
	// The state records the removal next, so the folder must not reappear after a power
	// failure.
	if err := s.sync("runs"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
