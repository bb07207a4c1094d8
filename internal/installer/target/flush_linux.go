package target

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// watched is a mounted file system whose write errors are told. Most of what is written waits in
// memory, and neither sync(2) nor an unmount says that the disk has failed to take it: only a
// descriptor that was open before does, for its whole file system.
type watched struct{ dir *os.File }

// watch begins right after mounting.
func watch(dir string) (watched, error) {
	f, err := os.Open(dir)
	if err != nil {
		return watched{}, fmt.Errorf("watch the file system: %w", err)
	}
	return watched{f}, nil
}

// flush writes all of it to the disk, and gives what has failed since watch. It lets go of the file
// system, which can be unmounted then.
func (w watched) flush() error {
	err := unix.Syncfs(int(w.dir.Fd()))
	if err != nil {
		err = fmt.Errorf("write the file system on %s: the disk failed to take it: %w", w.dir.Name(), err)
	}
	return errors.Join(err, w.dir.Close())
}
