package mixed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/overlay"
	"github.com/holdfast-metal/holdfast/test/program"
)

// patience bounds the test, without the builds.
const patience = 8 * time.Minute

// builds returns the binaries of a git reference and of this tree. HOLDFAST_TEST_PREVIOUS and
// HOLDFAST_TEST_BINARY can name existing ones.
func builds(t *testing.T) (previous, now string) {
	t.Helper()
	root, err := overlay.Root(".")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	run := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
	}
	if previous = os.Getenv("HOLDFAST_TEST_PREVIOUS"); previous == "" {
		ref := os.Getenv("E2E_PREVIOUS")
		if ref == "" {
			t.Skip("NOT TESTED: there is no release yet: make e2e-previous PREVIOUS=v1.2.2 names one")
		}
		src := filepath.Join(dir, "src")
		previous = filepath.Join(dir, "previous")
		run("bash", "-c", `set -euo pipefail; mkdir "$1"; git -C "$0" archive "$2" | tar -x -C "$1"`, root, src, ref)
		run("go", "build", "-C", src, "-buildvcs=false", "-ldflags", "-X main.version=previous", "-o", previous,
			"./cmd/holdfast")
	}
	if now = os.Getenv("HOLDFAST_TEST_BINARY"); now == "" {
		if now, err = (program.Build{Version: "now"}).Into(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
	}
	return previous, now
}

// TestPreviousBuild replaces peers of the previous build one by one, the leader last, and
// downgrades one of them in between. In each mixture, under leaders of both builds, every peer must
// accept writes and serve them, and runs must succeed. Earlier data must exist at the end.
func TestPreviousBuild(t *testing.T) {
	previous, now := builds(t)
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	dir := t.TempDir()
	hw, err := localcluster.StartFakeHardware(ctx, now, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hw.Close() })
	// All peers start this path, which is switched between the builds.
	current := filepath.Join(dir, "current")
	use := func(binary string) {
		t.Helper()
		_ = os.Remove(current) // it does not exist at first
		if err := os.Symlink(binary, current); err != nil {
			t.Fatal(err)
		}
	}
	use(previous)
	c, err := localcluster.Start(ctx, localcluster.Config{Binary: current, Dir: filepath.Join(dir, "cluster"),
		FakeEndpoint: hw.Endpoint, RaftMultiplier: 2,
		Args: []string{"--raft-snapshot-threshold", "32", "--raft-snapshot-interval", "1s", "--raft-trailing-logs", "64"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, p := range c.Peers() {
				t.Logf("log of %s:\n%s", p.ID, p.LogTail(5000))
			}
		}
		_ = c.Close()
	})
	m := &mixture{c: c}
	m.work(ctx, t, "all peers of the previous build")
	restart := func(p *localcluster.Peer, binary, name string) {
		t.Helper()
		use(binary)
		if err := p.Stop(ctx); err != nil {
			t.Fatalf("%s: stop %s: %v", name, p.ID, err)
		}
		verify(t, p.DataDir)
		if err := p.Start(ctx); err != nil {
			t.Fatalf("%s: start %s: %v", name, p.ID, err)
		}
		if err := c.WaitReady(ctx); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		m.work(ctx, t, name)
	}
	leader, err := c.Leader(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var followers []*localcluster.Peer
	for _, p := range c.Peers() {
		if p != leader {
			followers = append(followers, p)
		}
	}
	restart(followers[0], now, "one follower of this build")
	restart(followers[0], previous, "downgraded follower")
	restart(followers[0], now, "one follower of this build again")
	m.lead(ctx, t, followers[0].ID)
	m.work(ctx, t, "this build leads two of the previous one")
	restart(followers[1], now, "two followers of this build")
	if err := errors.Join(followers[1].Kill(), followers[1].Wipe()); err != nil {
		t.Fatal(err)
	}
	if err := followers[1].Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	m.work(ctx, t, "a follower of this build with a new directory")
	restart(followers[1], previous, "downgraded follower with a directory of this build")
	restart(followers[1], now, "two followers of this build again")
	m.lead(ctx, t, leader.ID)
	m.work(ctx, t, "the previous build leads two of this one")
	restart(leader, now, "all peers of this build")
	m.remembers(ctx, t)
}

// verify verifies the data directory of a stopped peer of any build.
func verify(t *testing.T, dir string) {
	t.Helper()
	v, err := cluster.Verify(dir)
	if err != nil {
		t.Fatal(err)
	}
	if d := v.Damaged(); d != nil {
		t.Errorf("verify %s: got %s damaged: %v", dir, d.File, d.Damage)
	}
}

// mixture is a cluster, and its machines and runs.
type mixture struct {
	c        *localcluster.Cluster
	machines []string
	runs     []string
}

// dial returns a client of one peer.
func (m *mixture) dial(t *testing.T, addr string) *client.Client {
	t.Helper()
	cl, err := client.Dial(client.Config{Addrs: []string{addr}, TLS: m.c.TLS(), Timeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cl.Close() })
	return cl
}

// lead makes a peer the leader.
func (m *mixture) lead(ctx context.Context, t *testing.T, id string) {
	t.Helper()
	cl := m.dial(t, m.c.Addrs()[0])
	for {
		s, err := cl.Cluster().GetClusterStatus(ctx, &holdfastv1.GetClusterStatusRequest{})
		if err == nil && s.GetLeader() == id {
			return
		}
		_, err = cl.Operator().TransferLeadership(ctx, &holdfastv1.TransferLeadershipRequest{To: id})
		select {
		case <-ctx.Done():
			t.Fatalf("make %s lead: %v", id, err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// work writes through each peer, reads through the next one, and completes a run.
func (m *mixture) work(ctx context.Context, t *testing.T, when string) {
	t.Helper()
	addrs := m.c.Addrs()
	for i, addr := range addrs {
		id := fmt.Sprintf("m-%d", len(m.machines))
		cl := m.dial(t, addr)
		if _, err := cl.Machines().RegisterMachine(ctx,
			&holdfastv1.RegisterMachineRequest{Machine: &holdfastv1.Machine{MachineId: id,
				Labels: map[string]string{"when": "x"}, Spec: &holdfastv1.MachineSpec{Provider: "fake"}}}); err != nil {
			t.Fatalf("%s: register through peer %d: %v", when, i+1, err)
		}
		m.machines = append(m.machines, id)
		next := m.dial(t, addrs[(i+1)%len(addrs)])
		if _, err := next.Machines().GetMachine(ctx, &holdfastv1.GetMachineRequest{MachineId: id}); err != nil {
			t.Fatalf("%s: read through peer %d: %v", when, (i+1)%len(addrs)+1, err)
		}
		run, err := cl.Runs().StartRun(ctx, &holdfastv1.StartRunRequest{RequestId: "r-" + id, MachineId: id, Type: "REBOOT"})
		if err != nil {
			t.Fatalf("%s: start a run through peer %d: %v", when, i+1, err)
		}
		ended, err := next.WaitRun(ctx, run.GetRunId())
		if err != nil || ended.GetPhase() != holdfastv1.Run_SUCCEEDED {
			t.Fatalf("%s: run %s: %v, %v", when, run.GetRunId(), ended, err)
		}
		m.runs = append(m.runs, run.GetRunId())
	}
	t.Logf("%s: %d writes, %d runs", when, len(m.machines), len(m.runs))
}

// remembers checks that all machines and runs exist, and are the same at all peers.
func (m *mixture) remembers(ctx context.Context, t *testing.T) {
	t.Helper()
	var first []*holdfastv1.Run
	for i, addr := range m.c.Addrs() {
		cl := m.dial(t, addr)
		for _, id := range m.machines {
			if _, err := cl.Machines().GetMachine(ctx, &holdfastv1.GetMachineRequest{MachineId: id}); err != nil {
				t.Errorf("peer %d: machine %s: %v", i+1, id, err)
			}
		}
		for n, id := range m.runs {
			run, err := cl.Runs().GetRun(ctx, &holdfastv1.GetRunRequest{RunId: id})
			if err != nil || run.GetPhase() != holdfastv1.Run_SUCCEEDED {
				t.Errorf("peer %d: run %s: %v, %v", i+1, id, run, err)
				continue
			}
			run.LogCompacted = false // the log of the last runs may be compacted between two reads
			if i == 0 {
				first = append(first, run)
			} else if n < len(first) && !proto.Equal(first[n], run) {
				t.Errorf("peer %d, run %s: got\n%v\nwant\n%v", i+1, id, run, first[n])
			}
		}
	}
}
