//go:build unix

package blob

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// freeSpace returns the free and total space of the file system of dir, in bytes.
func freeSpace(dir string) (free, total int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, fmt.Errorf("read the free space of %s: %w", dir, err)
	}
	return int64(st.Bavail) * int64(st.Bsize), int64(st.Blocks) * int64(st.Bsize), nil
}
