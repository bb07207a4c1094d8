// Package atomicfile writes small files that a crash leaves either as they were or as they should
// be.
//
// It owns that one guarantee and knows nothing of what is written. It keeps no locks: whoever has
// two writers of one file gets the one or the other.
package atomicfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Write makes path hold data: it writes a temporary file beside it, has it and the directory put on
// the disk, and renames it in between. The file is readable for its owner only.
func Write(path string, data []byte) error {
	if err := write(path, data); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func write(path string, data []byte) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
