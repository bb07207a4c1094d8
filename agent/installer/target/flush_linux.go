package target

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// watched is a mounted file system whose write errors are reported. Written data mostly
// waits in memory. If the disk then fails, neither sync(2) nor an unmount returns the
// error. Only a descriptor that was open before does, for its whole file system.
type watched struct{ dir *os.File }

// watch must be called right after mounting.
func watch(dir string) (watched, error) {
	f, err := os.Open(dir)
	if err != nil {
		return watched{}, fmt.Errorf("watch the file system: %w", err)
	}
	return watched{f}, nil
}

// flush writes all data to the disk, and returns the errors since watch. It closes the
// descriptor, so that the file system can be unmounted.
func (w watched) flush() error {
	err := unix.Syncfs(int(w.dir.Fd()))
	if err != nil {
		err = fmt.Errorf("write the file system on %s: the disk failed: %w", w.dir.Name(), err)
	}
	return errors.Join(err, w.dir.Close())
}
