package cluster

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/cluster/internal/transport"
	"github.com/holdfast-metal/holdfast/cluster/peertls"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// CleanUp shuts down the parts that Run leaves running when it returns ErrStalled.
func (n *Peer) CleanUp() { _ = n.shutdown(context.Background(), false) }

// Watching reports whether the death watch holds a connection to a peer.
func (n *Peer) Watching(id string) bool {
	return n.watcher.Watching() == id
}

// Admitted reports whether the peer may vote.
func (n *Peer) Admitted() bool { return n.gate.Admitted() && n.ident.Get().Admitted }

// Expel revokes the peer's permission to vote, as if it had lost its data.
func (n *Peer) Expel() { n.gate.Admit(false) }

// AckingPeer returns the peer whose acknowledgement counts for a read index request with
// that id and term.
func (n *Peer) AckingPeer(ctx context.Context, id string, term uint64) string {
	return n.ackingPeer(ctx, &internalv1.ReadIndexRequest{PeerId: id, Term: term})
}

// ApplyBytes commits bytes as an entry of the log, without a check.
func (n *Peer) ApplyBytes(b []byte) error { return n.raft.Apply(b, 0).Error() }

// Term returns the peer's Raft term.
func (n *Peer) Term() uint64 { return n.raft.CurrentTerm() }

// AskVote sends the peer a vote request over its own Raft port, as another peer would. It
// reports whether the vote was granted.
func (n *Peer) AskVote(req raft.RequestVoteRequest) bool {
	granted, _ := n.AskVoteAs(n.cfg.TLS, req)
	return granted
}

// SetElectionTimeout changes how long the peer waits for a leader before it stands for election.
func (n *Peer) SetElectionTimeout(d time.Duration) error {
	rc := n.raft.ReloadableConfig()
	rc.HeartbeatTimeout, rc.ElectionTimeout = d, d
	return n.raft.ReloadConfig(rc)
}

// WrapLogs wraps the log store of Raft.
func (c *Config) WrapLogs(w func(raft.LogStore) raft.LogStore) { c.wrapLogs = w }

// FailDials makes connections to other peers' Raft ports fail if f returns an error.
func (c *Config) FailDials(f func(addr string) error) { c.dialFault = f }

// OnRaftStarted makes New call f when Raft runs and gossip does not yet.
func (c *Config) OnRaftStarted(f func(*Peer)) { c.raftStarted = f }

// AskAddresses asks for addresses as Raft and its transport do.
func (n *Peer) AskAddresses(id raft.ServerID, addr string) {
	_, _ = n.addrs.ServerAddr(id)
	_ = n.addrs.peersAt(addr)
}

// MakeOld makes the peer act like an older build with a lower feature level than the
// cluster's.
func (c *Config) MakeOld() { c.levelsBehind = 1 }

// CallElection makes the peer stand for election although there is a leader.
func (n *Peer) CallElection() { n.gate.CallElection(time.Second) }

// PendingNotifications returns the number of pending notifications of leadership changes.
func (n *Peer) PendingNotifications() int { return len(n.notify) }

// FastKeys makes the peer check its gossip keys often.
func (c *Config) FastKeys() { c.keyInterval = 50 * time.Millisecond }

// AskVoteAs is AskVote with the certificate of a store. If store is nil, it uses no TLS.
func (n *Peer) AskVoteAs(store *peertls.Store, req raft.RequestVoteRequest) (granted bool, err error) {
	var resp raft.RequestVoteResponse
	if len(req.ID) == 0 {
		req.ID = []byte(n.cfg.PeerID)
	}
	req.ProtocolVersion = raft.ProtocolVersionMax
	err = n.withTransport(store, func(t *raft.NetworkTransport, id raft.ServerID, at raft.ServerAddress) error {
		return t.RequestVote(id, at, &req, &resp)
	})
	return err == nil && resp.Granted, err
}

// Tell sends the peer a message over its Raft port, with the certificate of a store and as the
// peer that the message names.
func (n *Peer) Tell(store *peertls.Store, as string, message any) error {
	h := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(as), Addr: []byte("127.0.0.1:1")}
	return n.withTransport(store, func(t *raft.NetworkTransport, id raft.ServerID, at raft.ServerAddress) error {
		switch m := message.(type) {
		case raft.AppendEntriesRequest:
			m.RPCHeader = h
			return t.AppendEntries(id, at, &m, new(raft.AppendEntriesResponse))
		case raft.InstallSnapshotRequest:
			m.RPCHeader = h
			return t.InstallSnapshot(id, at, &m, new(raft.InstallSnapshotResponse), strings.NewReader("xx"))
		case raft.RequestVoteRequest:
			m.RPCHeader = h
			return t.RequestVote(id, at, &m, new(raft.RequestVoteResponse))
		case raft.RequestPreVoteRequest:
			m.RPCHeader = h
			return t.RequestPreVote(id, at, &m, new(raft.RequestPreVoteResponse))
		case raft.TimeoutNowRequest:
			m.RPCHeader = h
			return t.TimeoutNow(id, at, &m, new(raft.TimeoutNowResponse))
		}
		panic(message)
	})
}

func (n *Peer) withTransport(
	store *peertls.Store, do func(*raft.NetworkTransport, raft.ServerID, raft.ServerAddress) error,
) error {
	s, err := transport.Listen(transport.StreamConfig{
		Addr: "127.0.0.1:0", TLS: store,
		Greeting: func() *internalv1.Greeting { return &internalv1.Greeting{ClusterId: n.ident.Get().ClusterID} },
		PeersAt:  func(string) []string { return nil }, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		panic(err)
	}
	t := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{Stream: s, MaxPool: 1,
		MsgpackUseNewTimeFormat: true, Timeout: 5 * time.Second})
	defer func() { _ = t.Close() }()
	return do(t, raft.ServerID(n.cfg.PeerID), raft.ServerAddress(n.RaftAddr()))
}

// Weigh makes the peer take a snapshot after that many bytes, and check the log size often.
func (c *Config) Weigh(bytes int64) {
	c.logBytes, c.snapshotCheckInterval = bytes, 200*time.Millisecond
}

// LogSince returns the entries and bytes applied since the last snapshot, and how many
// entries Raft keeps behind the next one.
func (n *Peer) LogSince() (entries, bytes int64, trailing uint64) {
	w := n.driver.Meter().Since()
	return w.Entries, w.Bytes, n.raft.ReloadableConfig().TrailingLogs
}

// WaitLongForOldTasks makes a new leader wait much longer than usual for old tasks of other
// peers.
func (c *Config) WaitLongForOldTasks() { c.standDown = 20 * time.Second }

// Mute makes the peer's last received data look old, as on a machine that is busy for a
// moment.
func (n *Peer) Mute() { n.stream.Mute() }

// SetCommitTimeout sets how long Raft waits before it repeats the commit index to followers.
func (c *Config) SetCommitTimeout(d time.Duration) { c.commitTimeout = d }

// SendNoNotices makes the peer send no notices of commits, as if all were lost.
func (c *Config) SendNoNotices() { c.noNotices = true }

// RemoveLeaving removes a peer as if it had asked for it.
func (n *Peer) RemoveLeaving(ctx context.Context, id string) error {
	return n.members.Leave(ctx, id)
}

// Leave asks the leader to remove this peer from the cluster, as a graceful stop does.
func (n *Peer) Leave(ctx context.Context) error { return n.leave(ctx) }
