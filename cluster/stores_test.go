package cluster_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/cluster/clustertest"
	"github.com/holdfast-metal/holdfast/fsm"
)

// hanging is a disk that stops answering.
type hanging struct {
	raft.LogStore
	hang *atomic.Bool
	free chan struct{}
}

func (h hanging) StoreLogs(logs []*raft.Log) error {
	if h.hang.Load() {
		<-h.free
	}
	return h.LogStore.StoreLogs(logs)
}

func TestWatchdogEndsLeaderWithHangingDisk(t *testing.T) {
	t.Parallel()
	var hang [3]atomic.Bool
	free := make(chan struct{})
	c := clustertest.Start(t, clustertest.Options{Configure: func(i int, c *cluster.Config) {
		c.NoOpInterval, c.StallTimeout = 100*time.Millisecond, 3*time.Second // long enough for a busy machine
		c.RaftMultiplier = 4                                                 // or a busy machine elects another leader
		c.WrapLogs(func(l raft.LogStore) raft.LogStore { return hanging{l, &hang[i], free} })
	}})
	leader := c.Leader()
	t.Cleanup(func() {
		close(free)
		leader.Node.CleanUp()
	})
	settled(t, c, 3)
	at := leader.FSM.Applied()
	clustertest.Eventually(t, 20*time.Second, "no-ops of an idle leader", func() error {
		if got := leader.FSM.Applied(); got < at+3 {
			return fmt.Errorf("%d so far", got-at)
		}
		return nil
	})
	for i, p := range c.Peers {
		if p == leader {
			hang[i].Store(true)
		}
	}
	if err := c.Wait(leader, 30*time.Second); !errors.Is(err, cluster.ErrStalled) {
		t.Errorf("run with a hanging disk: got %v, want %v", err, cluster.ErrStalled)
	}
}

func newConfig(dir, id string) cluster.Config {
	return cluster.Config{
		PeerID: id, DataDir: dir, RaftAddr: "127.0.0.1:0", GossipAddr: "127.0.0.1:0", AdvertiseGRPC: "127.0.0.1:1",
		BootstrapExpect: 1, RaftMultiplier: 0.4, Logger: clustertest.Logger(),
	}
}

// refused checks that New fails with a one-line error that contains the words.
func refused(t *testing.T, cfg cluster.Config, words ...string) {
	t.Helper()
	n, err := cluster.New(cfg, fsm.New())
	if err == nil {
		n.Close()
		t.Fatalf("new: got no error, want one with %q", words)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error: want %q in it, got %v", w, err)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("error: want one line, got %v", err)
	}
}

func TestNewRefuses(t *testing.T) {
	with := func(change func(*cluster.Config)) cluster.Config {
		c := newConfig("", "a")
		change(&c)
		return c
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	for _, tc := range []struct {
		name string
		cfg  cluster.Config
		want []string
	}{
		{"no id", with(func(c *cluster.Config) { c.PeerID = "" }), []string{"node id"}},
		{"no gRPC address", with(func(c *cluster.Config) { c.AdvertiseGRPC = "" }), []string{"gRPC address"}},
		{"no port", with(func(c *cluster.Config) { c.RaftAddr = "127.0.0.1" }),
			[]string{"raft address", "127.0.0.1", "host:port"}},
		{"negative expect", with(func(c *cluster.Config) { c.BootstrapExpect = -1 }), []string{"-1"}},
		{"multiplier", with(func(c *cluster.Config) { c.RaftMultiplier = 21 }), []string{"21"}},
		{"alone and joining", with(func(c *cluster.Config) { c.Join = []string{"127.0.0.1:9"} }),
			[]string{"bootstrap expect 1", "127.0.0.1:9"}},
		{"every interface", with(func(c *cluster.Config) { c.RaftAddr = "0.0.0.0:0" }),
			[]string{"not reachable", "--advertise-raft"}},
		{"raft port in use", with(func(c *cluster.Config) { c.RaftAddr = l.Addr().String() }),
			[]string{"raft", l.Addr().String(), "in use"}},
		{"gossip port in use", with(func(c *cluster.Config) { c.GossipAddr = l.Addr().String() }),
			[]string{"gossip", l.Addr().String(), "in use"}},
		{"metadata too large", with(func(c *cluster.Config) { c.PeerID = strings.Repeat("x", 600) }), []string{"512 bytes"}},
	} {
		t.Run(tc.name, func(t *testing.T) { refused(t, tc.cfg, tc.want...) })
	}
}

func TestDataDirectoryIsProtected(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	c := clustertest.Start(t, clustertest.Options{Peers: 1, Configure: func(_ int, c *cluster.Config) {
		c.DataDir = dir
		c.SnapshotInterval, c.SnapshotThreshold, c.TrailingLogs = 20*time.Millisecond, 8, 40
	}})
	p := c.Leader()
	for i := range 50 {
		if err := register(t.Context(), p, fmt.Sprintf("m%d", i)); err != nil {
			t.Fatalf("write: %v", err)
		}
	}
	refused(t, newConfig(dir, "p1"), dir, "in use by another process")
	clustertest.Eventually(t, 10*time.Second, "a snapshot", func() error {
		if got := snapshots(t, dir); len(got) == 0 {
			return errors.New("none")
		}
		return nil
	})
	if err := c.Stop(p); err != nil {
		t.Fatalf("stop: %v", err)
	}
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "identity.json"): 0o600,
		filepath.Join(dir, "raft.db"): 0o600} {
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != want {
			t.Errorf("mode of %s: got %v (%v), want %v", path, st.Mode().Perm(), err, want)
		}
	}
	refused(t, newConfig(dir, "other"), `"p1"`, `"other"`, dir)

	// With all files restored the peer continues.
	c.Restart(p)
	c.Leader()
	if err := get(t.Context(), p, "m49"); err != nil {
		t.Errorf("read after a restart: %v", err)
	}
	if err := c.Stop(p); err != nil {
		t.Fatalf("stop: %v", err)
	}

	t.Run("identity lost", func(t *testing.T) {
		d := copyDir(t, dir)
		remove(t, d, "identity.json")
		refused(t, newConfig(d, "p1"), d, "identity.json", "never put a copy back")
	})
	t.Run("identity damaged", func(t *testing.T) {
		d := copyDir(t, dir)
		write(t, filepath.Join(d, "identity.json"), []byte("{"))
		refused(t, newConfig(d, "p1"), "identity.json", "never put a copy back")
	})
	t.Run("log lost", func(t *testing.T) {
		d := copyDir(t, dir)
		remove(t, d, "raft.db")
		remove(t, d, "snapshots")
		refused(t, newConfig(d, "p1"), d, "lost its raft log")
	})
	t.Run("log cut off", func(t *testing.T) {
		d := copyDir(t, dir)
		if err := os.Truncate(filepath.Join(d, "raft.db"), 12<<10); err != nil {
			t.Fatal(err)
		}
		refused(t, newConfig(d, "p1"), "raft log", d)
	})
	t.Run("log damaged inside", func(t *testing.T) {
		d := copyDir(t, dir)
		f, err := os.OpenFile(filepath.Join(d, "raft.db"), os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		st, _ := f.Stat()
		_, err = f.WriteAt([]byte(strings.Repeat("x", int(st.Size())-8<<10)), 8<<10) // all but the two metadata pages
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		refused(t, newConfig(d, "p1"), "raft log", d, "damaged")
	})
	t.Run("log overwritten", func(t *testing.T) {
		d := copyDir(t, dir)
		write(t, filepath.Join(d, "raft.db"), []byte(strings.Repeat("x", 64<<10)))
		refused(t, newConfig(d, "p1"), "raft log", d)
	})
	t.Run("snapshots damaged", func(t *testing.T) {
		d := copyDir(t, dir)
		for _, s := range snapshots(t, d) {
			write(t, s, []byte("damaged"))
		}
		refused(t, newConfig(d, "p1"), "snapshot")
	})
}

func snapshots(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "snapshots", "*[0-9]", "state.bin"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func copyDir(t *testing.T, dir string) string {
	t.Helper()
	d := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(d, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return d
}

func remove(t *testing.T, elem ...string) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(elem...)); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A peer that dies while writing a snapshot leaves an incomplete one. It must be removed.
func TestUnfinishedSnapshotsAreRemoved(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, clustertest.Options{Peers: 1, OnDisk: true})
	c.Leader()
	p := c.Peers[0]
	c.Kill(p)
	half := filepath.Join(c.DataDir(p), "snapshots", "2-12-1700000001000.tmp")
	if err := os.MkdirAll(half, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(half, "state.bin"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Restart(p)
	c.Leader()
	if _, err := os.Stat(half); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("unfinished snapshot: want it removed, got %v", err)
	}
}
