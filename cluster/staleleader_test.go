package cluster

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/fsm"
)

// A candidate accepts an entry of the leader that it replaces, such as one that a resumed process
// reads from its sockets. It must not keep that leader forever, because it would refuse its vote to
// all others.
func TestStaleLeaderIsForgotten(t *testing.T) {
	n, err := New(Config{PeerID: "p1", RaftAddr: "127.0.0.1:0", GossipAddr: "127.0.0.1:0", AdvertiseGRPC: "127.0.0.1:1",
		RaftMultiplier: 0.2,
		Logger:         slog.New(slog.DiscardHandler), Join: []string{"127.0.0.1:1"}}, fsm.New())
	if err != nil {
		t.Fatal(err)
	}
	// The other two voters do not exist, so no peer wins an election.
	var c raft.Configuration
	for _, p := range []struct{ id, addr string }{{"p1", n.RaftAddr()}, {"p2", "127.0.0.1:2"}, {"p3", "127.0.0.1:3"}} {
		c.Servers = append(c.Servers, raft.Server{ID: raft.ServerID(p.id), Address: raft.ServerAddress(p.addr)})
	}
	if err := n.raft.BootstrapCluster(c).Error(); err != nil {
		t.Fatal(err)
	}
	n.allowVote()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx, Work{}) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()

	// It may briefly be a follower. The entry then makes it follow, and the next round shows that.
	deadline, tick := time.Now().Add(20*time.Second), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for stray := false; !stray; {
		if time.Now().After(deadline) {
			t.Fatal("wait for the candidate to accept the entry: timed out")
		}
		n.gate.CallElection(time.Second)
		// The term in which it stands is written a moment later.
		for range 100 {
			deliver(t, n, &raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax,
				ID: []byte("p2"), Addr: []byte("127.0.0.1:2")},
				Term: n.raft.CurrentTerm()})
			if id, _, ok := n.Leader(); ok && id == "p2" && n.raft.State() == raft.Candidate {
				stray = true
				break
			}
		}
	}
	for n.raft.State() == raft.Candidate {
		if _, _, ok := n.Leader(); !ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("got a candidate that still follows the replaced leader")
		}
		<-tick.C
	}
}

// deliver passes a request to Raft like the network.
func deliver(t *testing.T, n *Peer, cmd any) {
	t.Helper()
	if _, ok := n.gate.Deliver(cmd, 10*time.Second); !ok {
		t.Fatal("deliver a request to raft: timed out")
	}
}
