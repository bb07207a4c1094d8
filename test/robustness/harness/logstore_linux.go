package harness

import (
	"fmt"
	"os"
	"path/filepath"
)

// logStore returns the arguments for a Raft log in segments, or in bolt.
func logStore(segments bool) []string {
	if segments {
		return []string{"--log-store", "wal"}
	}
	return []string{"--log-store", "boltdb"}
}

// Segments returns the directory of a peer's Raft log in segments, or "" if it is in bolt.
func Segments(dataDir string) string {
	dir := filepath.Join(dataDir, "wal")
	if _, err := os.Stat(filepath.Join(dir, "wal-meta.db")); err != nil {
		return ""
	}
	return dir
}

// mixed checks that exactly one peer has its log in segments. If the flag had no effect,
// all peers would be tested alike.
func (c *Cluster) mixed(segments int) error {
	for i, p := range c.Peers() {
		if got, want := Segments(p.DataDir) != "", i+1 == segments; got != want {
			return fmt.Errorf("start peer %s: its log is in segments: %t, want %t", p.ID, got, want)
		}
	}
	return nil
}
