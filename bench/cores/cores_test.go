package cores

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

// TestPut checks that the kernel throttles a process that never sleeps, and that no group
// remains.
func TestPut(t *testing.T) {
	g, err := New(Hierarchies()...)
	if err != nil {
		t.Skipf("needs root and control groups: %v", err)
	}
	busy := exec.CommandContext(t.Context(), "sh", "-c", "while :; do :; done")
	if err := busy.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = busy.Process.Kill()
		_ = busy.Wait()
	}()
	const share = 0.2
	if err := g.Put("busy", share, busy.Process.Pid); err != nil {
		t.Fatal(err)
	}
	stat := filepath.Join(g.dir, "busy", "cpu.stat")
	throttled := regexp.MustCompile(`(?m)^nr_throttled [1-9]`)
	for deadline := time.Now().Add(30 * time.Second); !throttled.MatchString(read(stat)); {
		if time.Now().After(deadline) {
			t.Fatalf("wait for the kernel to throttle a busy process: timed out: %s", read(stat))
		}
		time.Sleep(10 * time.Millisecond) // sleep: until the next poll
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	if exists(g.dir) {
		t.Errorf("%s remains", g.dir)
	}
}

// TestNew checks the choice of the directory.
func TestNew(t *testing.T) {
	dir := t.TempDir()
	if g, err := New(dir); err == nil {
		t.Errorf("no controller: got %+v", g)
	}
	files := func(sub string, files map[string]string) string {
		path := filepath.Join(dir, sub)
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(path, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return path
	}
	noCPU := files("none", map[string]string{"cgroup.controllers": "cpu memory", "cgroup.subtree_control": "memory"})
	if g, err := New(noCPU); err == nil {
		t.Errorf("controller not enabled: got %+v", g)
	}
	v1 := files("v1", map[string]string{"cpu.cfs_quota_us": "-1"})
	if g, err := New(dir, noCPU, v1); err != nil || g.v2 || filepath.Dir(g.dir) != v1 {
		t.Errorf("version 1: got %+v, %v", g, err)
	}
}

func TestOwnGroup(t *testing.T) {
	for file, want := range map[string]string{
		"":                               "",
		"0::/user.slice/a.scope\n":       "/user.slice/a.scope",
		"3:cpuset:/x\n1:cpu:/y\n0::/z\n": "/y",
		"4:cpu,cpuacct:/y\n0::/z\n":      "/y",
		"3:cpuset:/x\n0::/z\n":           "/z",
	} {
		if got := ownGroup(file); got != want {
			t.Errorf("%q: got %q, want %q", file, got, want)
		}
	}
}
