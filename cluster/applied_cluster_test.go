package cluster

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/cluster/internal/raftstore"
	"github.com/holdfast-metal/holdfast/fsm"
)

// A leader that lacks entries which this peer has applied must not make it remove them, neither by
// its own entries nor by a snapshot, also after a restart.
func TestAppliedEntriesAreKept(t *testing.T) {
	for _, tt := range []struct {
		name    string
		restart bool
		message func(base uint64) any
	}{
		{"other entries", false, otherEntry},
		{"other entries, after a restart", true, otherEntry},
		{"an older snapshot", false, func(base uint64) any {
			return raft.InstallSnapshotRequest{Term: 7, LastLogIndex: base, LastLogTerm: 5, Size: 2}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			n, ended := follower(t, dir)
			if err := n.raft.BootstrapCluster(raft.Configuration{Servers: []raft.Server{
				{ID: "p1", Address: raft.ServerAddress(n.RaftAddr())},
				{ID: "p2", Address: "127.0.0.1:2"}, {ID: "p3", Address: "127.0.0.1:3"},
			}}).Error(); err != nil {
				t.Fatal(err)
			}
			base := n.raft.LastIndex()
			h := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("p2"), Addr: []byte("127.0.0.1:2")}
			req := &raft.AppendEntriesRequest{RPCHeader: h, Term: 5, PrevLogEntry: base, PrevLogTerm: 1,
				LeaderCommitIndex: base + 3}
			for i := range uint64(3) {
				req.Entries = append(req.Entries, &raft.Log{Index: base + 1 + i, Term: 5, Type: raft.LogCommand})
				deliver(t, n, req)
				until(t, func() bool { return n.fsm.Applied() == base+1+i })
			}
			if tt.restart {
				n.Close()
				if err := <-ended; err != nil {
					t.Fatal(err)
				}
				n, ended = follower(t, dir)
			}
			go func() { // ends with the peer
				for n.Tell(nil, "p3", tt.message(base)) != nil { // a leader repeats a message that was refused
					select {
					case <-t.Context().Done():
						return
					case <-time.After(time.Millisecond):
					}
				}
			}()
			select {
			case err := <-ended:
				if _, ok := errors.AsType[*raftstore.AppliedError](err); !ok {
					t.Errorf("got %v, want that the applied entries are kept", err)
				}
			case <-time.After(30 * time.Second):
				t.Error("the peer runs on")
			}
		})
	}
}

func otherEntry(base uint64) any {
	return raft.AppendEntriesRequest{Term: 7, PrevLogEntry: base, PrevLogTerm: 1,
		Entries: []*raft.Log{{Index: base + 1, Term: 7, Type: raft.LogCommand}}}
}

// follower runs a peer that stands for no election.
func follower(t *testing.T, dir string) (*Peer, <-chan error) {
	t.Helper()
	n, err := New(Config{PeerID: "p1", DataDir: dir, RaftAddr: "127.0.0.1:0", GossipAddr: "127.0.0.1:0",
		AdvertiseGRPC: "127.0.0.1:1", Logger: slog.New(slog.DiscardHandler), Join: []string{"127.0.0.1:1"}}, fsm.New())
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- n.Run(context.WithoutCancel(t.Context()), Work{}) }()
	return n, ended
}

func until(t *testing.T, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); {
		if time.Now().After(deadline) {
			t.Fatal("timed out")
		}
		<-time.After(time.Millisecond)
	}
}
