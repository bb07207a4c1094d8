//go:build unix

package raftstore

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Space returns the free and total bytes of the file system of the data directory, and zeros in
// memory.
func (s *Stores) Space() (free, total int64, err error) {
	if s.dir == "" {
		return 0, 0, nil
	}
	var st unix.Statfs_t
	if err := unix.Statfs(s.dir, &st); err != nil {
		return 0, 0, fmt.Errorf("read the free space of %s: %w", s.dir, err)
	}
	return int64(st.Bavail) * int64(st.Bsize), int64(st.Blocks) * int64(st.Bsize), nil
}
