package harness

import (
	"fmt"
	"os"
	"path/filepath"
)

// logStore returns the arguments of a peer whose Raft log is to be in segments, or in bolt.
func logStore(segments bool) []string {
	if segments {
		return []string{"--log-store", "wal"}
	}
	return []string{"--log-store", "boltdb"}
}

// Segments returns the directory where a peer's Raft log is in segments; "" if it is in bolt.
func Segments(dataDir string) string {
	dir := filepath.Join(dataDir, "wal")
	if _, err := os.Stat(filepath.Join(dir, "wal-meta.db")); err != nil {
		return ""
	}
	return dir
}

// mixed makes sure that one peer, and no other, has its log in segments: a flag that nobody heeds
// would have all of them tested alike.
func (c *Cluster) mixed(segments int) error {
	for i, p := range c.Peers() {
		if got, want := Segments(p.DataDir) != "", i+1 == segments; got != want {
			return fmt.Errorf("start peer %s: its log is in segments: %t, want %t", p.ID, got, want)
		}
	}
	return nil
}
