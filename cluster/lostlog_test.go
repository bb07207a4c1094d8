package cluster_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/cluster/clustertest"
	"github.com/holdfast-metal/holdfast/fsm"
)

// listing returns the path and size of every file of a data directory. bolt may write to a file
// that it only opens, so only the presence of raft.db counts.
func listing(t *testing.T, dir string) map[string]int64 {
	t.Helper()
	files := map[string]int64{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if files[rel] = info.Size(); rel == "raft.db" {
			files[rel] = 0
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestLostRaftDB tests a peer whose raft.db is missing: it has forgotten its votes and
// acknowledged entries, even if it has snapshots. It refuses to start and deletes nothing.
func TestLostRaftDB(t *testing.T) {
	for _, store := range []string{cluster.LogStoreBolt, cluster.LogStoreWAL} {
		dir := filepath.Join(t.TempDir(), "data")
		c := clustertest.Start(t, clustertest.Options{Peers: 1, Configure: func(_ int, c *cluster.Config) {
			c.DataDir, c.LogStore = dir, store
			c.SnapshotInterval, c.SnapshotThreshold, c.TrailingLogs = 20*time.Millisecond, 8, 40
		}})
		p := c.Leader()
		for i := range 50 {
			if err := register(t.Context(), p, fmt.Sprintf("m%d", i)); err != nil {
				t.Fatal(err)
			}
		}
		clustertest.Eventually(t, 10*time.Second, "a snapshot", func() error {
			if len(snapshots(t, dir)) == 0 {
				return errors.New("none")
			}
			return nil
		})
		if err := register(t.Context(), p, "late"); err != nil {
			t.Fatal(err)
		}
		if err := c.Stop(p); err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			name string
			lose func(t *testing.T, dir string)
			want string
		}{
			{"missing", func(t *testing.T, d string) { remove(t, d, "raft.db") }, "raft.db is missing"},
			{"empty", func(t *testing.T, d string) { write(t, filepath.Join(d, "raft.db"), nil) }, "raft.db is empty"},
			{"new", func(t *testing.T, d string) {
				conf := newConfig(filepath.Join(t.TempDir(), "other"), "p1")
				conf.BootstrapExpect = 0
				n, err := cluster.New(conf, fsm.New())
				if err != nil {
					t.Fatal(err)
				}
				n.Close()
				b, err := os.ReadFile(filepath.Join(conf.DataDir, "raft.db"))
				if err != nil {
					t.Fatal(err)
				}
				write(t, filepath.Join(d, "raft.db"), b)
			}, "raft.db is new"},
		} {
			t.Run(store+" "+tt.name, func(t *testing.T) {
				d := copyDir(t, dir)
				tt.lose(t, d)
				before := listing(t, d)
				refused(t, newConfig(d, "p1"), d, "lost its raft log", tt.want, cluster.DamageAdvice)
				for _, dry := range []bool{true, false} {
					if _, err := cluster.Recover(d, 0, dry, clustertest.Logger()); err == nil {
						t.Errorf("recover (dry: %t): got no error, want a refusal", dry)
					}
				}
				if diff := cmp.Diff(before, listing(t, d)); diff != "" {
					t.Errorf("files (-before +after):\n%s", diff)
				}
			})
		}
		t.Run(store+" without identity and raft.db", func(t *testing.T) {
			d := copyDir(t, dir)
			remove(t, d, "raft.db")
			remove(t, d, "identity.json")
			before := listing(t, d)
			refused(t, newConfig(d, "p1"), d, "identity.json", cluster.DamageAdvice)
			if diff := cmp.Diff(before, listing(t, d)); diff != "" {
				t.Errorf("files (-before +after):\n%s", diff)
			}
		})
	}
}

// TestRecoverDryRunRemovesNothing checks that a dry run also keeps an unfinished snapshot.
func TestRecoverDryRunRemovesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	c := clustertest.Start(t, clustertest.Options{Peers: 1, Configure: func(_ int, c *cluster.Config) {
		c.DataDir, c.LogStore = dir, cluster.LogStoreBolt
	}})
	p := c.Leader()
	if err := register(t.Context(), p, "m-1"); err != nil {
		t.Fatal(err)
	}
	if err := c.Stop(p); err != nil {
		t.Fatal(err)
	}
	unfinished := filepath.Join(dir, "snapshots", "1-2-3.tmp")
	if err := os.MkdirAll(unfinished, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(unfinished, "left"), []byte("x"))
	before := listing(t, dir)
	if r, err := cluster.Recover(dir, 0, true, clustertest.Logger()); err != nil || r.Machines != 1 {
		t.Fatalf("dry run: got %+v, %v, want one machine", r, err)
	}
	if diff := cmp.Diff(before, listing(t, dir)); diff != "" {
		t.Errorf("files (-before +after):\n%s", diff)
	}
}
