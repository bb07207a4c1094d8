package localcluster

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

	"github.com/google/go-cmp/cmp"
)

func testConfig(t *testing.T) (context.Context, Config) {
	t.Helper()
	t.Setenv("HOLDFAST_NODE_ID", "not-this-one")
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(stop)
	return ctx, Config{Binary: binary, Dir: t.TempDir(), Insecure: true, FakeEndpoint: "http://127.0.0.1:7450",
		RaftMultiplier: 0.5,
		Env:            []string{"LOCALCLUSTER_PEER=1", "HOLDFAST_GIVEN=1"}}
}

func startCluster(t *testing.T) (context.Context, *Cluster) {
	t.Helper()
	ctx, cfg := testConfig(t)
	c, err := Start(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return ctx, c
}

func TestStart(t *testing.T) {
	ctx, c := startCluster(t)
	leader, err := c.Leader(ctx)
	if err != nil || leader != c.Peer("n1") {
		t.Fatalf("got leader %v, %v, want n1", leader, err)
	}
	r, err := c.Peer("n2").Readiness(ctx)
	if diff := cmp.Diff(Readiness{Ready: true, Role: "follower", Leader: "n1", AppliedIndex: 7}, r); diff != "" ||
		err != nil {
		t.Fatalf("readiness of n2: %v (-want +got):\n%s", err, diff)
	}
	seen := map[string]bool{}
	for _, p := range c.Peers() {
		for _, addr := range []string{p.GRPCAddr, p.HTTPAddr, p.RaftAddr, p.GossipAddr} {
			if seen[addr] {
				t.Errorf("got %s twice", addr)
			}
			seen[addr] = true
		}
	}
	p := c.Peer("n3")
	for _, want := range []string{"--node-id n3", "--data-dir " + p.DataDir, "--bootstrap-expect 3",
		"--raft-multiplier 0.5", "--insecure",
		"--join " + c.Peer("n1").GossipAddr + "," + c.Peer("n2").GossipAddr} {
		if log := p.LogTail(4096); !strings.Contains(log, want) {
			t.Errorf("arguments of n3: got no %q: %s", want, log)
		}
	}
	config, err := os.ReadFile(filepath.Join(filepath.Dir(p.DataDir), "config.yaml"))
	want := "providers:\n  fake:\n    kind: fake\n    endpoint: \"http://127.0.0.1:7450\"\n"
	if string(config) != want || err != nil {
		t.Errorf("got configuration %q, %v, want %q", config, err, want)
	}
}

func TestPeerLifecycle(t *testing.T) {
	ctx, c := startCluster(t)
	p := c.Peer("n2")
	if err := p.Start(ctx); err == nil {
		t.Error("start a running peer: got no error")
	}
	if err := p.Wipe(); err == nil {
		t.Error("wipe a running peer: got no error")
	}

	if err := p.Kill(); err != nil || p.Running() {
		t.Fatalf("kill: got %v, running %v", err, p.Running())
	}
	var exit *exec.ExitError
	if err := p.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("wait: got %v, want SIGKILL", err)
	}
	if err := p.Kill(); err != nil {
		t.Errorf("second kill: %v", err)
	}
	if err := p.Stop(ctx); err == nil {
		t.Error("stop an ended peer: got no error")
	}
	if err := p.Wipe(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(p.DataDir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("data of a wiped peer: got %v", err)
	}

	if err := p.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(ctx); err != nil || p.Wait() != nil {
		t.Errorf("got stop %v, wait %v", err, p.Wait())
	}
	if got := strings.Count(p.LogTail(1<<20), "peer n2: server"); got != 2 {
		t.Errorf("log: got %d starts, want 2", got)
	}
}

func TestPause(t *testing.T) {
	ctx, c := startCluster(t)
	p := c.Peer("n1")
	if err := p.Pause(); err != nil {
		t.Fatal(err)
	}
	short, stop := context.WithTimeout(ctx, 100*time.Millisecond)
	defer stop()
	if leader, err := c.Leader(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got leader %v, %v while it is paused", leader, err)
	}
	if err := c.WaitReady(ctx); err != nil { // the others, which still follow n1
		t.Error(err)
	}
	if err := p.Resume(); err != nil {
		t.Fatal(err)
	}
	if leader, err := c.Leader(ctx); leader != p || err != nil {
		t.Errorf("got leader %v, %v, want n1 again", leader, err)
	}
	if err := p.Pause(); err != nil { // Close must handle it
		t.Fatal(err)
	}
}

func TestStartFails(t *testing.T) {
	ctx, cfg := testConfig(t)
	cfg.Args = []string{"--broken"}
	began := time.Now()
	c, err := Start(ctx, cfg)
	if err == nil {
		t.Fatal(errors.Join(errors.New("start of a broken cluster: got no error"), c.Close()))
	}
	if time.Since(began) > 20*time.Second {
		t.Errorf("took %s to notice the end of a peer", time.Since(began))
	}
	for _, want := range []string{"has ended", "peer n2: exit status 1", "peer n2 is broken"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error: want %q in it, got %v", want, err)
		}
	}
}

// A peer that ends before the wait for it begins is no peer less to wait for.
func TestStartFailsAtOnce(t *testing.T) {
	ctx, cfg := testConfig(t)
	cfg.Args = []string{"--broken"}
	c, err := New(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range c.Peers() {
		if err := p.Start(ctx); err != nil {
			t.Error(err)
		}
		t.Cleanup(func() {
			if err := p.Kill(); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil && !strings.Contains(err.Error(), "signal: terminated") { // too early to obey
			t.Error(err)
		}
	})
	<-c.Peer("n2").Done()
	err = c.waitReady(ctx, c.Peers())
	if err == nil || !strings.Contains(err.Error(), "peer n2 is broken") {
		t.Errorf("got %v, want the reason why n2 has ended", err)
	}
}

func TestFakeHardware(t *testing.T) {
	ctx, cfg := testConfig(t)
	t.Setenv("LOCALCLUSTER_PEER", "1")
	f, err := StartFakeHardware(ctx, cfg.Binary, cfg.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.wait(ctx); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil || f.program.proc.running() {
		t.Errorf("close: got %v, running %v", err, f.program.proc.running())
	}
	if f, err = StartFakeHardware(ctx, cfg.Binary, cfg.Dir); err != nil {
		t.Fatal(err)
	}
	if err := f.program.proc.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-f.program.proc.done
	if err := f.Close(); err == nil ||
		!strings.Contains(err.Error(), "had ended before it was closed: it has ended (signal: killed)") {
		t.Errorf("close of a killed fleet: got %v", err)
	}
	if _, err := StartFakeHardware(ctx, "/bin/false", cfg.Dir); err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("got error %v, want an ended process", err)
	}
}

func TestConfig(t *testing.T) {
	for name, cfg := range map[string]Config{
		"even":         {Binary: "b", Dir: "d", Peers: 2},
		"too many":     {Binary: "b", Dir: "d", Peers: 9},
		"no binary":    {Dir: "d"},
		"no directory": {Binary: "b"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := New(context.Background(), cfg); err == nil {
				t.Error("New: got no error")
			}
		})
	}
}

func TestTail(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(file, []byte("one\ntwo\nthree\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]string{1: "", 8: "three\n", 100: "one\ntwo\nthree\n"} {
		if got := tail(file, n); got != want {
			t.Errorf("tail(%d): got %q, want %q", n, got, want)
		}
	}
	if got := tail(file+"x", 8); !strings.Contains(got, "no such file") {
		t.Errorf("tail of a missing file: got %q", got)
	}
}
