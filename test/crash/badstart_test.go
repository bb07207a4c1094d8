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
func alone(t *testing.T, args ...string) *localcluster.Cluster {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), harness.Patience)
	defer stop()
	c, err := localcluster.Start(ctx, localcluster.Config{Binary: bench.Binary, Dir: t.TempDir(), Peers: 1,
		Insecure: true, Args: args})
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

// stoppedPeer returns a peer of a cluster of one that was stopped gracefully. It has further
// arguments.
func stoppedPeer(t *testing.T, args ...string) *localcluster.Peer {
	t.Helper()
	c := alone(t, args...)
	if err := c.Peers()[0].Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c.Peers()[0]
}

// arguments returns the arguments of a valid start with the data and addresses of a peer.
func arguments(p *localcluster.Peer, more ...string) []string {
	return append([]string{"server", "--insecure", "--node-id", p.ID, "--data-dir", p.DataDir, "--bootstrap-expect", "1",
		"--grpc-addr", p.GRPCAddr, "--http-addr", p.HTTPAddr, "--raft-addr", p.RaftAddr, "--gossip-addr", p.GossipAddr},
		more...)
}

// refusedStart checks that a start fails with one error line that contains the wanted texts, and
// does not change the data directory.
func refusedStart(t *testing.T, p *localcluster.Peer, args []string, want ...string) {
	t.Helper()
	before := harness.Hash(t, p.DataDir)
	code, stderr := bench.Run(t, args...)
	if code == 0 {
		t.Errorf("got exit code 0, want a failure; stderr:\n%s", stderr)
	}
	var lines []string
	for line := range strings.Lines(stderr) {
		if strings.HasPrefix(line, "error: ") {
			lines = append(lines, line)
		}
	}
	if len(lines) != 1 || !strings.HasSuffix(stderr, lines[0]) {
		t.Fatalf("stderr: got no single final error line:\n%s", stderr)
	}
	for _, w := range want {
		if !strings.Contains(lines[0], w) {
			t.Errorf("got error without %q: %s", w, lines[0])
		}
	}
	if diff := cmp.Diff(before, harness.Hash(t, p.DataDir)); diff != "" {
		t.Errorf("data directory (-before +after):\n%s", diff)
	}
	t.Log(lines[0])
}

// TestBadStarts checks that invalid starts fail with one error line and change nothing.
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
	t.Run("insecure on a public address", func(t *testing.T) {
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
			t.Errorf("got exit code %d; stderr:\n%s", code, stderr)
		}
	})
	t.Run("valid start afterwards", func(t *testing.T) {
		if err := p.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		harness.Until(t, "the peer to lead again", func() (bool, any) {
			r, err := p.Readiness(t.Context())
			return err == nil && r.Ready, r
		})
	})
}

// TestPeerOfAnotherCluster checks that a peer with data of one cluster does not join another one.
func TestPeerOfAnotherCluster(t *testing.T) {
	t.Parallel()
	c := bench.Cluster(t, harness.Options{Insecure: true}) // with TLS, they could not communicate at all
	c.Register("m-1")
	p := stoppedPeer(t)
	// Its name n1 is also that of a peer in the other cluster.
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
	// Not with refusedStart: the peer may continue with its own log before it meets the others.
	code, stderr := bench.Run(t, arguments(p, "--bootstrap-expect", "0", "--join", strings.Join(join, ","))...)
	refused := slices.ContainsFunc(strings.Split(stderr, "\n"), func(line string) bool { // Raft may log after it
		return strings.HasPrefix(line, "error: ") && strings.Contains(line, "belongs to cluster "+st.GetClusterId())
	})
	if code == 0 || !refused {
		t.Errorf("got exit code %d, want a failure that names cluster %s:\n%s", code, st.GetClusterId(), stderr)
	}
	if st = status(c.Client.Cluster()); len(st.GetPeers()) != 3 || st.GetFailureTolerance() != 1 {
		t.Errorf("status of the other cluster: got %v", st)
	}
	for _, peer := range st.GetPeers() {
		if peer.GetGrpcAddr() == p.GRPCAddr || peer.GetSuffrage() != "voter" {
			t.Errorf("got the foreign peer %v in the cluster", peer)
		}
	}
	c.Register("m-2")
	if err := p.Start(t.Context()); err != nil { // its own cluster is unchanged
		t.Fatal(err)
	}
	harness.Until(t, "the peer to lead its own cluster", func() (bool, any) {
		r, err := p.Readiness(t.Context())
		return err == nil && r.Ready, r
	})
}

// TestDamagedSnapshot checks that a damaged snapshot is neither loaded nor overwritten.
func TestDamagedSnapshot(t *testing.T) {
	t.Parallel()
	p := stoppedPeer(t)
	file := snapshot(t, p)
	if err := p.Start(t.Context()); err != nil { // the snapshot is still good
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

// snapshot writes the first snapshot of a peer, of an empty state at the index of the
// configuration.
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
