package crash

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/crash/harness"
)

// alone starts a cluster of one peer.
func alone(t *testing.T) *localcluster.Cluster {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), harness.Patience)
	defer stop()
	c, err := localcluster.Start(ctx, localcluster.Config{Binary: bench.Binary, Dir: t.TempDir(), Peers: 1,
		Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// stoppedPeer returns a peer that had a cluster of its own and was stopped in order.
func stoppedPeer(t *testing.T) *localcluster.Peer {
	t.Helper()
	c := alone(t)
	if err := c.Peers()[0].Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c.Peers()[0]
}

// arguments are a start that would succeed, with the data and the addresses of a peer.
func arguments(p *localcluster.Peer, more ...string) []string {
	return append([]string{"server", "--insecure", "--node-id", p.ID, "--data-dir", p.DataDir, "--bootstrap-expect", "1",
		"--grpc-addr", p.GRPCAddr, "--http-addr", p.HTTPAddr, "--raft-addr", p.RaftAddr, "--gossip-addr", p.GossipAddr},
		more...)
}

// refusedStart checks that a start ends with an exit code and one clear line, and has changed
// nothing in the data directory.
func refusedStart(t *testing.T, p *localcluster.Peer, args []string, want ...string) {
	t.Helper()
	before := harness.Hash(t, p.DataDir)
	code, stderr := bench.Run(t, args...)
	if code == 0 {
		t.Errorf("exit code 0, stderr:\n%s", stderr)
	}
	var lines []string
	for line := range strings.Lines(stderr) {
		if strings.HasPrefix(line, "error: ") {
			lines = append(lines, line)
		}
	}
	if len(lines) != 1 || !strings.HasSuffix(stderr, lines[0]) {
		t.Fatalf("stderr does not end with the one line that begins with error: \n%s", stderr)
	}
	for _, w := range want {
		if !strings.Contains(lines[0], w) {
			t.Errorf("the error lacks %q: %s", w, lines[0])
		}
	}
	if diff := cmp.Diff(before, harness.Hash(t, p.DataDir)); diff != "" {
		t.Errorf("the data directory has changed:\n%s", diff)
	}
	t.Log(lines[0])
}

// Starts that must not succeed say why in one line, and leave what is there alone.
func TestBadStarts(t *testing.T) {
	t.Parallel()
	p := stoppedPeer(t)
	for _, kind := range []string{"grpc", "http", "raft", "gossip"} {
		t.Run(kind+" port in use", func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			refusedStart(t, p, arguments(p, "--"+kind+"-addr", l.Addr().String()), kind, l.Addr().String(),
				"address already in use")
		})
	}
	t.Run("data of another node", func(t *testing.T) {
		refusedStart(t, p, arguments(p, "--node-id", "other"), p.DataDir, `"n1"`, `"other"`)
	})
	t.Run("unknown key", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "peer.yaml")
		if err := os.WriteFile(file, []byte("node_id: n1\n# a comment\nraft_adr: \"127.0.0.1:1\"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		refusedStart(t, p, arguments(p, "--config", file), file, "line 3", `"raft_adr"`)
	})
	t.Run("insecure where others can reach it", func(t *testing.T) {
		for _, kind := range []string{"grpc", "http", "raft", "gossip"} {
			refusedStart(t, p, arguments(p, "--"+kind+"-addr", "0.0.0.0:0"), "--insecure", "--"+kind+"-addr", "0.0.0.0:0",
				"loopback")
		}
	})
	t.Run("in use by another process", func(t *testing.T) {
		c := alone(t)
		running := c.Peers()[0]
		free := stoppedPeer(t)
		free.DataDir = running.DataDir
		code, stderr := bench.Run(t, arguments(free)...)
		if code == 0 || !strings.Contains(stderr, "in use by another process") {
			t.Errorf("exit code %d, stderr:\n%s", code, stderr)
		}
	})
	t.Run("what was refused before", func(t *testing.T) {
		if err := p.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		harness.Until(t, "the peer to lead again", func() (bool, any) {
			r, err := p.Readiness(t.Context())
			return err == nil && r.Ready, r
		})
	})
}

// A peer with the data of one cluster that is told to join another stays out of it.
func TestPeerOfAnotherCluster(t *testing.T) {
	t.Parallel()
	c := bench.Cluster(t, harness.Options{Insecure: true}) // with TLS they would not hear each other at all
	c.Register("m-1")
	p := stoppedPeer(t)
	// It is called n1, as one of the peers there.
	var join []string
	for _, o := range c.Peers() {
		join = append(join, o.GossipAddr)
	}
	status := func(cl holdfastv1.ClusterServiceClient) *holdfastv1.ClusterStatus {
		st, err := cl.GetClusterStatus(t.Context(), &holdfastv1.GetClusterStatusRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	st := status(c.Client.Cluster())
	// Not with refusedStart: it may well go on with its own cluster's log before it meets the
	// others.
	code, stderr := bench.Run(t, arguments(p, "--bootstrap-expect", "0", "--join", strings.Join(join, ","))...)
	said := slices.ContainsFunc(strings.Split(stderr, "\n"), func(line string) bool { // Raft may have a last word after it
		return strings.HasPrefix(line, "error: ") && strings.Contains(line, "belongs to cluster "+st.GetClusterId())
	})
	if code == 0 || !said {
		t.Errorf("exit code %d, want another one and an error that names cluster %s:\n%s", code, st.GetClusterId(), stderr)
	}
	if st = status(c.Client.Cluster()); len(st.GetPeers()) != 3 || st.GetFailureTolerance() != 1 {
		t.Errorf("status of the cluster that was not joined: %v", st)
	}
	for _, peer := range st.GetPeers() {
		if peer.GetGrpcAddr() == p.GRPCAddr || peer.GetSuffrage() != "voter" {
			t.Errorf("the foreign peer has got in: %v", peer)
		}
	}
	c.Register("m-2")
	if err := p.Start(t.Context()); err != nil { // its own cluster is as it was
		t.Fatal(err)
	}
	harness.Until(t, "the peer to lead its own cluster", func() (bool, any) {
		r, err := p.Readiness(t.Context())
		return err == nil && r.Ready, r
	})
}

// A snapshot that is damaged is not started from, and not written over.
func TestDamagedSnapshot(t *testing.T) {
	t.Parallel()
	p := stoppedPeer(t)
	file := snapshot(t, p)
	if err := p.Start(t.Context()); err != nil { // the snapshot is good so far
		t.Fatal(err)
	}
	harness.Until(t, "the peer to lead from its snapshot", func() (bool, any) {
		r, err := p.Readiness(t.Context())
		return err == nil && r.Ready, fmt.Sprintf("%v %v", r, p.LogTail(500))
	})
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 0xff
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	refusedStart(t, p, arguments(p), "snapshot", p.DataDir)
}

// snapshot makes the first snapshot of a peer's data: of a state that is empty still, at the index
// of the configuration.
func snapshot(t *testing.T, p *localcluster.Peer) (file string) {
	t.Helper()
	store, err := raft.NewFileSnapshotStore(p.DataDir, 2, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	_, tr := raft.NewInmemTransport(raft.ServerAddress(p.RaftAddr))
	one := raft.Configuration{Servers: []raft.Server{{ID: raft.ServerID(p.ID), Address: raft.ServerAddress(p.RaftAddr)}}}
	sink, err := store.Create(raft.SnapshotVersionMax, 1, 1, one, 1, tr)
	if err != nil {
		t.Fatal(err)
	}
	s, err := fsm.New().Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.WriteTo(sink); err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(p.DataDir, "snapshots", sink.ID(), "state.bin")
}
