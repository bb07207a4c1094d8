package cluster

import (
	"context"
	"log/slog"
	"time"

	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/cluster/peertls"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// CleanUp ends what Run has left behind with ErrStalled.
func (n *Node) CleanUp() { _ = n.shutdown(context.Background(), false) }

// Watching reports whether the death watch holds a connection to a peer.
func (n *Node) Watching(id string) bool {
	w := n.watching.Load()
	return w != nil && *w == id
}

// Admitted reports whether the peer may vote.
func (n *Node) Admitted() bool { return n.gate.admitted.Load() && n.ident.get().Admitted }

// Expel makes the peer one that may not vote, as if it had lost its data.
func (n *Node) Expel() { n.gate.admitted.Store(false) }

// Vouches returns whose word counts when somebody asks for a read index under that name and with
// that term.
func (n *Node) Vouches(ctx context.Context, id string, term uint64) string {
	return n.ackingPeer(ctx, &internalv1.ReadIndexRequest{PeerId: id, Term: term})
}

// Term is the one that the peer has.
func (n *Node) Term() uint64 { return n.raft.CurrentTerm() }

// AskVote sends the peer a vote request over its own Raft port, as another peer would, and says
// whether it was granted.
func (n *Node) AskVote(req raft.RequestVoteRequest) bool {
	granted, _ := n.AskVoteAs(n.cfg.TLS, req)
	return granted
}

func mustListen() *stream {
	s, err := listen("127.0.0.1:0", "", func() string { return "" }, slog.New(slog.DiscardHandler))
	if err != nil {
		panic(err)
	}
	return s
}

// SetElectionTimeout changes how long the peer waits for a leader before it stands for election.
func (n *Node) SetElectionTimeout(d time.Duration) error {
	rc := n.raft.ReloadableConfig()
	rc.HeartbeatTimeout, rc.ElectionTimeout = d, d
	return n.raft.ReloadConfig(rc)
}

// WrapLogs puts something between Raft and its log.
func (c *Config) WrapLogs(w func(raft.LogStore) raft.LogStore) { c.wrapLogs = w }

// FailDials makes connections to other peers' Raft ports fail where f returns an error.
func (c *Config) FailDials(f func(addr string) error) { c.dialFault = f }

// MakeOld makes the peer one of an older build, which understands less than the cluster uses.
func (c *Config) MakeOld() { c.levelsBehind = 1 }

// CallElection lets the peer stand for election although there is a leader.
func (n *Node) CallElection() { n.gate.callElection(time.Second) }

// News returns how many words of Raft on the leadership have not been heard yet.
func (n *Node) News() int { return len(n.notify) }

// FastKeys makes the peer look at its gossip keys often.
func (c *Config) FastKeys() { c.keyInterval = 50 * time.Millisecond }

// AskVoteAs is AskVote with the certificate of a store, or without TLS when there is none.
func (n *Node) AskVoteAs(store *peertls.Store, req raft.RequestVoteRequest) (granted bool, err error) {
	req.RPCHeader = header()
	s := mustListen()
	s.sec = newStreamTLS(store, func(string) []string { return nil })
	t := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{Stream: s, MaxPool: 1, MsgpackUseNewTimeFormat: true, Timeout: 5 * time.Second})
	defer func() { _ = t.Close() }()
	var resp raft.RequestVoteResponse
	err = t.RequestVote(raft.ServerID(n.cfg.NodeID), raft.ServerAddress(n.RaftAddr()), &req, &resp)
	return err == nil && resp.Granted, err
}

// Weigh makes the peer take a snapshot when so many bytes have been applied since the last one, and
// look often.
func (c *Config) Weigh(bytes int64) {
	c.logBytes, c.snapshotCheckInterval = bytes, 200*time.Millisecond
}

// LogSince returns the entries and bytes that this process has applied since the last snapshot, and
// how many entries Raft keeps behind the next one.
func (n *Node) LogSince() (entries, bytes int64, trailing uint64) {
	w := n.driver.meter.since()
	return w.entries, w.bytes, n.raft.ReloadableConfig().TrailingLogs
}

// WaitLongForOldTasks makes a new leader wait for those of others far longer than it does
// elsewhere.
func (c *Config) WaitLongForOldTasks() { c.standDown = 20 * time.Second }

// Pauses returns how long a leader waits after each of several pieces of work that failed after so
// long.
func Pauses(lasted ...time.Duration) (all []time.Duration) {
	var p pauses
	for _, d := range lasted {
		all = append(all, p.next(d))
	}
	return all
}

// Mute makes what has arrived on the peer's Raft connections look old, as a busy machine does for a
// moment.
func (n *Node) Mute() {
	n.stream.mu.Lock()
	defer n.stream.mu.Unlock()
	for t := range n.stream.conns {
		if c, ok := t.Conn.(*greetedConn); ok {
			c.read.Store(0)
		}
	}
}
