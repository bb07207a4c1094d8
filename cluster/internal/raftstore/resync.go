package raftstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	walfs "github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/types"
	"go.etcd.io/bbolt"
)

// A process that is killed between a write and its sync leaves the write in the page cache, where
// the next process finds it. Raft acknowledges an entry that it has already without another write,
// and a power cut would lose it. So whatever counts is synced before anything is read from it.
//
// After a sync that has failed, Linux takes the pages for clean: the next sync succeeds and writes
// nothing. So what may be in the cache only is written again before it is synced. That is the last
// write of a segment, because a peer ends with the first failure, and any page of a bolt file.

// files returns the file system of the segments.
func (c *Config) files() types.VFS {
	if c.vfs == nil {
		return walfs.New()
	}
	return c.vfs
}

// syncDirs syncs the entries of directories.
func (c *Config) syncDirs(dirs ...string) error {
	var errs []error
	for _, dir := range dirs {
		if c.syncDir != nil {
			errs = append(errs, c.syncDir(dir))
			continue
		}
		errs = append(errs, SyncDir(dir))
	}
	return errors.Join(errs...)
}

// SyncDir syncs the entries of a directory: which files it has.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err == nil {
		err = errors.Join(d.Sync(), d.Close())
	}
	if err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, err)
	}
	return nil
}

// resyncBolt writes a bolt file again and syncs it, if there is one. It holds bolt's lock.
func (c *Config) resyncBolt(path string) error {
	if st, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) || err == nil && st.Size() == 0 {
		return nil
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return boltError(path, err)
	}
	st, err := os.Stat(path)
	if err == nil {
		err = c.rewrite(filepath.Dir(path), filepath.Base(path), 0, st.Size())
	}
	return errors.Join(err, db.Close())
}

// rewrite writes a part of a file again, and syncs the file.
func (c *Config) rewrite(dir, name string, from, to int64) error {
	f, err := c.files().OpenWriter(dir, name)
	if err != nil {
		return fmt.Errorf("sync file: %w", err)
	}
	if err := errors.Join(rewrite(f, from, to), f.Close()); err != nil {
		return fmt.Errorf("sync %s: %w", filepath.Join(dir, name), err)
	}
	return nil
}

func rewrite(f types.WritableFile, from, to int64) error {
	const chunk = 1 << 20
	for buf := make([]byte, min(chunk, to-from)); from < to; from += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), to-from)]
		if _, err := f.ReadAt(buf, from); err != nil {
			return err
		}
		if _, err := f.WriteAt(buf, from); err != nil {
			return err
		}
	}
	return f.Sync()
}

// syncSnapshots syncs which snapshots there are. The contents of each were synced before it got its
// name.
func (c *Config) syncSnapshots() error {
	dir := filepath.Join(c.Dir, snapshotDir)
	all, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list snapshots: %w", err)
	}
	for _, s := range all {
		if s.IsDir() && !strings.HasSuffix(s.Name(), ".tmp") {
			if err := c.syncSnapshot(s.Name()); err != nil {
				return err
			}
		}
	}
	return c.syncDirs(dir, c.Dir)
}

// syncSnapshot syncs which files a snapshot has. The library syncs the files only.
func (c *Config) syncSnapshot(id string) error {
	return c.syncDirs(filepath.Join(c.Dir, snapshotDir, id))
}
