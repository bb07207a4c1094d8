package operator

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/internal/localcluster"
	"github.com/holdfast-metal/holdfast/test/logstore"
	"github.com/holdfast-metal/holdfast/test/program"
)

const patience = 5 * time.Minute

// site is three peers with TLS, fake machines, and an operator's shell.
type site struct {
	*localcluster.Cluster
	hardware    *localcluster.FakeHardware
	binary, dir string
}

func open(t *testing.T) *site {
	t.Helper()
	dir := t.TempDir()
	binary := program.Holdfast(t)
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	hw, err := localcluster.StartFakeHardware(ctx, binary, dir, "--latency", "50ms")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hw.Close() })
	stores, err := logstore.Selected(logstore.WAL, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(stores.Text(3))
	c, err := localcluster.Start(ctx, localcluster.Config{Binary: binary, Dir: filepath.Join(dir, "cluster"),
		FakeEndpoint: hw.Endpoint, RaftMultiplier: 2, ArgsOf: stores.Args})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, p := range c.Peers() {
				t.Logf("log of %s:\n%s", p.ID, p.LogTail(3000))
			}
		}
		_ = c.Close()
	})
	return &site{Cluster: c, hardware: hw, binary: binary, dir: dir}
}

// command returns a command of the operator, with the admin's certificate or only with the CA.
func (s *site) command(ctx context.Context, admin bool, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.binary, args...)
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "HOLDFAST_") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Env = append(cmd.Env, "HOME="+s.dir, "HOLDFAST_ADDR="+strings.Join(s.Addrs(), ","), "HOLDFAST_CA="+s.Files().CA)
	if admin {
		cmd.Env = append(cmd.Env, "HOLDFAST_CERT="+s.Files().AdminCert, "HOLDFAST_KEY="+s.Files().AdminKey)
	}
	return cmd
}

// run runs a command to its end.
func (s *site) run(t *testing.T, admin bool, args ...string) (out string, code int) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	cmd := s.command(ctx, admin, args...)
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// must is like run but fails the test if the command fails.
func (s *site) must(t *testing.T, args ...string) string {
	t.Helper()
	out, code := s.run(t, true, args...)
	if code != 0 {
		t.Fatalf("holdfast %s: got exit code %d\n%s", strings.Join(args, " "), code, out)
	}
	return out
}

// TestVerbs checks the verbs of docs/operating.md, with and without an admin's certificate.
func TestVerbs(t *testing.T) {
	s := open(t)
	s.must(t, "machine", "register", "--id", "m-1")
	file, bundle := filepath.Join(s.dir, "a.snap"), filepath.Join(s.dir, "debug.tar.gz")
	for _, tt := range []struct {
		args string
		want string
	}{
		{args: "cluster status", want: "leader n"},
		{args: "cluster failover-safe", want: "safe: 1 may fail"},
		{args: "operator raft list-peers -o name", want: "n1\n"},
		{args: "operator upgrade check", want: "all peers run this build"},
		{args: "operator autopilot state", want: "voter"},
		{args: "operator autopilot set-config --min-quorum 3", want: "min-quorum             3"},
		{args: "operator autopilot get-config", want: "min-quorum             3"},
		{args: "operator raft transfer-leadership", want: "leads now"},
		{args: "cluster drill", want: "writes paused for"},
		{args: "operator snapshot save " + file, want: "saved " + file},
		{args: "operator debug -f " + bundle, want: "files"},
		{args: "audit verify", want: ""},
	} {
		out, code := s.run(t, true, strings.Fields(tt.args)...)
		if code != 0 || !strings.Contains(out, tt.want) {
			t.Errorf("holdfast %s: got exit code %d, want 0 and %q:\n%s", tt.args, code, tt.want, out)
		}
		if out, code := s.run(t, false, strings.Fields(tt.args)...); code == 0 {
			t.Errorf("holdfast %s without a certificate: got exit code 0, want a failure:\n%s", tt.args, out)
		}
	}
	// These need no peer.
	for _, args := range []string{"operator snapshot verify " + file, "operator snapshot inspect " + file} {
		if out, code := s.run(t, false, strings.Fields(args)...); code != 0 {
			t.Errorf("holdfast %s: got exit code %d\n%s", args, code, out)
		}
	}
	s.saveIsKilled(t)
}

// TestRestoreIsKilled kills a restore at different times. All peers must then have the old or the
// new state, and the same command must succeed when it is repeated.
func TestRestoreIsKilled(t *testing.T) {
	if os.Getenv("CRASH") == "" {
		t.Skip("takes long: run make crash")
	}
	s := open(t)
	for _, id := range []string{"old-1", "old-2", "old-3"} {
		s.must(t, "machine", "register", "--id", id)
	}
	file := filepath.Join(s.dir, "a.snap")
	s.must(t, "operator", "snapshot", "save", file)
	// The command stages the snapshot, then the leader pauses its tasks for 1.1 s, then the state
	// is replaced at once.
	restored := 0
	for _, after := range []time.Duration{0, 50 * time.Millisecond, 200 * time.Millisecond, 700 * time.Millisecond,
		1300 * time.Millisecond} {
		for _, id := range []string{"new-1", "new-2"} {
			s.must(t, "machine", "register", "--id", id)
		}
		cmd := s.command(t.Context(), true, "operator", "snapshot", "restore", "--yes", file)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = cmd.Wait() // killed, unless it was faster
		}()
		select {
		case <-done:
		case <-time.After(after):
			_ = cmd.Process.Signal(syscall.SIGKILL)
			<-done
		}
		// Both states are correct, but no mixture. The leader completes a restore that it has begun
		// without the caller.
		if got := s.machines(t); got != "old-1 old-2 old-3" && got != "new-1 new-2 old-1 old-2 old-3" {
			t.Errorf("killed after %s: got machines %s", after, got)
		} else if got == "old-1 old-2 old-3" {
			restored++
		}
		s.restore(t, file)
		if got := s.machines(t); got != "old-1 old-2 old-3" {
			t.Errorf("killed after %s and repeated: got machines %s", after, got)
		}
		for i, addr := range s.Addrs() {
			if out, code := s.run(t, true, "--addr", addr, "machine", "list", "-o", "name"); code != 0 ||
				strings.Contains(out, "new-") {
				t.Errorf("peer %d after the restore: got exit code %d\n%s", i+1, code, out)
			}
		}
	}
	t.Logf("%d of 5 killed commands had already restored", restored)
	s.must(t, "audit", "verify")
}

// restore restores to the end. An effect of the killed command may interrupt it once. Then the
// command's error asks to repeat it.
func (s *site) restore(t *testing.T, file string) {
	t.Helper()
	for range 3 {
		out, code := s.run(t, true, "operator", "snapshot", "restore", "--yes", file)
		if code == 0 {
			return
		}
		if !strings.Contains(out, "restart the upload") {
			t.Fatalf("restore: got exit code %d\n%s", code, out)
		}
	}
	t.Fatal("restore: three attempts asked to restart the upload")
}

// machines returns the ids of all machines.
func (s *site) machines(t *testing.T) string {
	t.Helper()
	return strings.ReplaceAll(strings.Join(strings.Fields(s.must(t, "machine", "list", "-o", "name")), " "), "machine/",
		"")
}
