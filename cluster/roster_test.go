package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/cluster/clustertest"
	"github.com/holdfast-metal/holdfast/cluster/peertls"
	"github.com/holdfast-metal/holdfast/cluster/peertls/issue"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// storeOf writes the certificate of a peer to files, and opens them.
func storeOf(t *testing.T, c *clustertest.Cluster, id string, pair issue.Pair) *peertls.Store {
	t.Helper()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	c.WriteFile(in("ca.pem"), c.CA.Pair.Cert)
	c.WriteFile(in("cert.pem"), pair.Cert)
	c.WriteFile(in("key.pem"), pair.Key)
	s, err := peertls.Open(peertls.Config{CA: in("ca.pem"), Cert: in("cert.pem"), Key: in("key.pem"), PeerID: id})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// hostile are messages of Raft that would change the term or the log of a peer.
func hostile(term uint64) map[string]any {
	cfg := raft.EncodeConfiguration(raft.Configuration{Servers: []raft.Server{
		{Suffrage: raft.Voter, ID: "n9", Address: "127.0.0.1:1"}}})
	return map[string]any{
		"AppendEntries": raft.AppendEntriesRequest{Term: term, PrevLogEntry: 1, PrevLogTerm: 1},
		"heartbeat":     raft.AppendEntriesRequest{Term: term},
		"InstallSnapshot": raft.InstallSnapshotRequest{Term: term, SnapshotVersion: 1, LastLogIndex: 1 << 40,
			LastLogTerm: term, Configuration: cfg, ConfigurationIndex: 1, Size: 2},
		"RequestVote": raft.RequestVoteRequest{Term: term, LastLogIndex: 1 << 40, LastLogTerm: 1 << 40,
			LeadershipTransfer: true},
		"RequestPreVote": raft.RequestPreVoteRequest{Term: term, LastLogIndex: 1 << 40, LastLogTerm: 1 << 40},
		"TimeoutNow":     raft.TimeoutNowRequest{},
	}
}

// unmoved checks that hostile messages change the term of no peer. An honest election on a busy
// machine also changes it, by one: so no peer may take the term of the messages, and the terms stay
// as they were in one of several rounds.
func unmoved(t *testing.T, c *clustertest.Cluster, store *peertls.Store, as string) {
	t.Helper()
	const ahead = 50
	var moved []string
	for round := range 5 {
		leader := c.Leader()
		term := leader.Node.Term()
		for _, p := range c.Peers {
			if !p.Up() {
				continue
			}
			for name, m := range hostile(term + ahead) {
				if err := p.Node.Tell(store, as, m); err == nil {
					t.Errorf("%s to %s: got an answer, want a refusal", name, p.ID)
				}
			}
		}
		if err := register(t.Context(), leader, fmt.Sprint("after-", as, "-", round)); err != nil {
			moved = append(moved, fmt.Sprintf("write after the messages: %v", err))
			continue
		}
		stays := true
		for _, p := range c.Peers {
			if !p.Up() || p.Node.Term() == term {
				continue
			}
			stays = false
			moved = append(moved, fmt.Sprintf("term of %s: got %d, want %d", p.ID, p.Node.Term(), term))
			if p.Node.Term() >= term+ahead {
				t.Fatalf("term of %s: got %d, that of the messages, want %d", p.ID, p.Node.Term(), term)
			}
		}
		if stays {
			return
		}
	}
	t.Errorf("in each of five rounds: %q", moved)
}

// Certificates of peers that are no members change nothing, whatever they send.
func TestStrangersChangeNothing(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, clustertest.Options{Peers: 4, OnDisk: true, TLS: true, Configure: calm})
	settled(t, c, 4)
	leader := c.Leader()
	removed, other := c.Followers(leader)[0], c.Followers(leader)[1]
	member := storeOf(t, c, other.ID, peerPair(t, c.CA, clustertest.ClusterName, other.ID))
	former := storeOf(t, c, removed.ID, c.Pair(removed))
	clustertest.Eventually(t, time.Minute, "the serials of all certificates", func() error {
		for _, p := range c.Followers(leader) {
			if rec, _ := leader.FSM.View().Peer(p.ID); len(rec.GetSerials()) == 0 {
				return errors.New("none of " + p.ID)
			}
		}
		return nil
	})
	c.Kill(removed)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := leader.Node.RemovePeer(ctx, removed.ID, true); err != nil {
		t.Fatal(err)
	}
	clustertest.Eventually(t, time.Minute, "the removal on all peers", func() error {
		for _, p := range c.Followers(removed) {
			if a, _ := p.FSM.View().Admission(removed.ID); suffrage(t, p, removed) == "voter" || !a.GetDenied() {
				return errors.New("not on " + p.ID)
			}
		}
		return nil
	})
	t.Run("a removed peer", func(t *testing.T) { unmoved(t, c, former, removed.ID) })
	t.Run("a removed peer as the leader", func(t *testing.T) { unmoved(t, c, former, leader.ID) })
	t.Run("a peer that never joined", func(t *testing.T) {
		unmoved(t, c, storeOf(t, c, "n9", peerPair(t, c.CA, clustertest.ClusterName, "n9")), "n9")
	})
	t.Run("a member as the leader", func(t *testing.T) { unmoved(t, c, member, leader.ID) })
	t.Run("calls", func(t *testing.T) {
		for _, id := range []string{removed.ID, "n9"} {
			pair := peerPair(t, c.CA, clustertest.ClusterName, id)
			peers := internalv1.NewPeerServiceClient(dialAs(t, c, leader, pair))
			for name, call := range map[string]func() error{
				"Confirm":   func() error { _, err := peers.Confirm(ctx, &internalv1.ConfirmRequest{}); return err },
				"ReadIndex": func() error { _, err := peers.ReadIndex(ctx, &internalv1.ReadIndexRequest{}); return err },
				"StandDown": func() error {
					_, err := peers.StandDown(ctx, &internalv1.StandDownRequest{Term: 1 << 40})
					return err
				},
				"Admit": func() error { _, err := peers.Admit(ctx, &internalv1.AdmitRequest{}); return err },
				"Leave": func() error { _, err := peers.Leave(ctx, &internalv1.LeaveRequest{PeerId: id}); return err },
			} {
				if got := status.Code(call()); got != codes.PermissionDenied {
					t.Errorf("%s of %s: got %v, want PermissionDenied", name, id, got)
				}
			}
		}
	})
	t.Run("it returns only if admitted", func(t *testing.T) {
		c.Wipe(removed)
		c.Restart(removed)
		clustertest.Eventually(t, time.Minute, "the refusal in the status", func() error {
			for _, p := range leader.Node.Status(ctx).GetPeers() {
				if p.GetId() == removed.ID && p.GetSuffrage() == "none" && p.GetWaits() != "" {
					return nil
				}
			}
			return errors.New("not shown")
		})
		if err := leader.Node.AdmitPeer(ctx, removed.ID); err != nil {
			t.Fatal(err)
		}
		settled(t, c, 4)
	})
}

// A removed peer returns with a new certificate. Its old one stays denied.
func TestRemovedPeerReturnsWithNewCertificate(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, clustertest.Options{Peers: 4, OnDisk: true, TLS: true, Configure: calm})
	settled(t, c, 4)
	leader := c.Leader()
	removed := c.Followers(leader)[0]
	clustertest.Eventually(t, time.Minute, "the serial of its certificate", func() error {
		if rec, _ := leader.FSM.View().Peer(removed.ID); len(rec.GetSerials()) == 0 {
			return errors.New("none")
		}
		return nil
	})
	old := storeOf(t, c, removed.ID, c.Pair(removed))
	unseen := storeOf(t, c, removed.ID, peerPair(t, c.CA, clustertest.ClusterName, removed.ID))
	c.Kill(removed)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := leader.Node.RemovePeer(ctx, removed.ID, true); err != nil {
		t.Fatal(err)
	}
	c.Wipe(removed)
	c.Certify(removed, c.CA, clustertest.ClusterName, c.CA.Pair.Cert)
	c.Restart(removed)
	settled(t, c, 4)
	for _, tt := range []struct {
		name  string
		store *peertls.Store
		want  bool
	}{
		{"the old certificate", old, false},
		{"one that was made right before the removal, and never shown", unseen, false},
		{"the new certificate", storeOf(t, c, removed.ID, c.Pair(removed)), true},
	} {
		err := leader.Node.Tell(tt.store, removed.ID, raft.RequestPreVoteRequest{Term: 1})
		if got := err == nil; got != tt.want {
			t.Errorf("message with %s: got an answer %t (%v), want %t", tt.name, got, err, tt.want)
		}
	}
}

// A new peer waits for an admin if one of the members says so.
func TestPeersAreAdmittedByHand(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("tls %t", secure), func(t *testing.T) {
			t.Parallel()
			c := clustertest.Start(t, clustertest.Options{TLS: secure, Peers: 4,
				Stopped: func(i int) bool { return i == 3 },
				Configure: func(i int, c *cluster.Config) {
					calm(i, c)
					c.AdmitManually = i == 1
					if c.BootstrapExpect = 3; i == 3 {
						c.BootstrapExpect = 0
					}
				}})
			settled(t, c, 3)
			leader, late := c.Leader(), c.Peers[3]
			c.Restart(late)
			clustertest.Eventually(t, time.Minute, "the waiting peer in the status", func() error {
				for _, p := range leader.Node.Status(t.Context()).GetPeers() {
					if p.GetId() == late.ID && p.GetSuffrage() == "none" && p.GetWaits() != "" {
						return nil
					}
				}
				return errors.New("not shown")
			})
			if err := leader.Node.AdmitPeer(t.Context(), late.ID); err != nil {
				t.Fatal(err)
			}
			settled(t, c, 4)
		})
	}
}

// A peer that has missed the addition of the present leader believes it, because others vouch
// for it.
func TestLaggingPeerBelievesTheLeader(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, clustertest.Options{TLS: true, OnDisk: true, Peers: 4,
		Stopped: func(i int) bool { return i == 3 },
		Configure: func(i int, c *cluster.Config) {
			calm(i, c)
			if c.BootstrapExpect = 3; i == 3 {
				c.BootstrapExpect = 0
			}
		}})
	settled(t, c, 3)
	late := c.Peers[3]
	lagging := c.Followers(c.Leader())[0]
	c.Kill(lagging)
	c.Restart(late)
	clustertest.Eventually(t, time.Minute, "the new voter", func() error {
		if s := suffrage(t, c.Leader(), late); s != "voter" {
			return errors.New(s)
		}
		return nil
	})
	clustertest.Eventually(t, time.Minute, "the new peer to lead", func() error {
		l := c.Leader()
		if l == late {
			return nil
		}
		_, err := l.Node.TransferTo(t.Context(), late.ID)
		return errors.Join(errors.New("another one leads"), err)
	})
	c.Restart(lagging)
	settled(t, c, 4)
	if err := register(t.Context(), lagging, "after"); err != nil {
		t.Error(err)
	}
}
