package harness

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/holdfast-metal/holdfast/test/logstore"
)

// Segments returns the directory of a peer's Raft log in segments, or "" if it is in bolt.
func Segments(dataDir string) string {
	dir := filepath.Join(dataDir, "wal")
	if _, err := os.Stat(filepath.Join(dir, "wal-meta.db")); err != nil {
		return ""
	}
	return dir
}

// stored checks that each peer has its log in its store. If the flag had no effect, all
// peers would be tested alike.
func (c *Cluster) stored(stores logstore.Stores) error {
	for i, p := range c.Peers() {
		if stores == nil {
			return nil
		}
		got := logstore.Bolt
		if Segments(p.DataDir) != "" {
			got = logstore.WAL
		}
		if want := stores(i); got != want {
			return fmt.Errorf("start peer %s: its log is in %s, want %s", p.ID, got, want)
		}
	}
	return nil
}
