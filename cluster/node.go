// Package cluster owns the distributed parts of a peer: Raft and its stores, gossip,
// bootstrap, membership changes, leadership, commits, linearizable reads, and the
// forwarding of calls to the leader.
//
// It knows no resources. Machines, plans and runs are opaque to it, and a command is bytes
// with a result. It must not import executor, server or providers. Its only state is the
// peer's own identity and Raft's data.
//
// New creates a Node and opens its data directory and listeners. Run does the work and
// blocks.
//
// The files in reading order: node.go creates a peer, run.go runs and stops it, bootstrap.go forms
// a new cluster. leader.go runs the leader's tasks, terms.go begins and confirms a term,
// handover.go ends it. members.go removes peers; reconcile.go and autopilot.go make the leader add,
// promote and remove them. apply.go and batch.go commit commands, read.go serves reads, and
// intercept.go and forward.go send calls to the peer that can answer them.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/cluster/internal/gossip"
	"github.com/holdfast-metal/holdfast/cluster/internal/joinwatch"
	"github.com/holdfast-metal/holdfast/cluster/internal/marks"
	"github.com/holdfast-metal/holdfast/cluster/internal/peerconn"
	"github.com/holdfast-metal/holdfast/cluster/internal/raftstore"
	"github.com/holdfast-metal/holdfast/cluster/internal/readindex"
	"github.com/holdfast-metal/holdfast/cluster/internal/roster"
	"github.com/holdfast-metal/holdfast/cluster/internal/transport"
	"github.com/holdfast-metal/holdfast/cluster/internal/wait"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Node is one peer of a cluster.
type Node struct {
	cfg    Config
	log    *slog.Logger
	fsm    *fsm.FSM
	ident  *identity
	marks  *marks.Keeper
	stores *raftstore.Stores
	stream *transport.Stream
	gate   *transport.Gate
	raft   *raft.Raft
	driver *raftFSM
	gossip *gossip.Gossip
	book   atomic.Pointer[gossip.Gossip] // gossip, for Raft, which asks for addresses before gossip has started
	conns  *peerconn.Conns

	terms      *terms
	membership *membership
	roster     *roster.Roster
	founding   *founding
	watcher    *deathWatcher
	router     *router
	reader     *reader
	committer  *committer
	reporter   *reporter
	watchdog   *watchdog
	past       past
	clocks     *clocks
	metrics    *metrics
	work       atomic.Pointer[Work] // set by Run
	joins      *joinwatch.Watch

	changed     *wait.Signal              // fires when the leader or its readiness changes
	metaChanged *wait.Signal              // fires when gossipMeta changes
	leaderless  atomic.Pointer[time.Time] // since when no leader has been known
	fatal       atomic.Pointer[error]     // the error that makes this peer stop

	start int64           // when the process started, which distinguishes it from the one before
	life  context.Context // canceled when the node stops
	end   context.CancelFunc
	ended <-chan struct{}

	applied atomic.Bool // this peer has applied the log that it found when it started

	reloading sync.Mutex // guards changes of Raft's configuration

	closeOnce sync.Once
	closing   chan struct{}
	ran       atomic.Bool
}

// New opens the data directory, the listeners and gossip, restores the state into f and
// starts Raft. It returns an error if a port or the directory is in use, if the directory
// belongs to another peer, or if its files are damaged. The Node works in Run. A Node that
// is not run must be closed.
func New(cfg Config, f *fsm.FSM) (_ *Node, err error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	began := time.Now()
	n := &Node{
		cfg: cfg, log: cfg.Logger, fsm: f, driver: &raftFSM{fsm: f},
		changed: wait.NewSignal(), metaChanged: wait.NewSignal(), closing: make(chan struct{}),
		start: began.UnixNano(),
	}
	n.terms = &terms{n: n, notify: make(chan bool, 64), pauseRequests: make(chan *pauseRequest)}
	n.committer = &committer{n: n, began: began}
	n.membership, n.founding, n.watcher = &membership{n: n}, &founding{n: n}, &deathWatcher{n: n}
	n.router, n.reader, n.reporter, n.watchdog = &router{n: n}, &reader{n: n}, &reporter{n: n}, &watchdog{n: n}
	n.clocks = &clocks{n: n}
	n.joins = joinwatch.New(standing{n}, n.log)
	n.life, n.end = context.WithCancel(context.Background())
	n.ended = n.life.Done()
	n.roster = newRoster(n)
	var undo []func()
	defer func() {
		if err != nil {
			for _, f := range slices.Backward(undo) {
				f()
			}
			n.end()
		}
	}()
	if n.metrics, err = newMetrics(cfg.Registerer, n); err != nil {
		return nil, err
	}
	if n.ident, err = openIdentity(cfg.DataDir, cfg.NodeID); err != nil {
		return nil, err
	}
	sc := raftstore.Config{Dir: cfg.DataDir, LogStore: cfg.LogStore, Applied: f.Applied,
		Logger: cfg.Logger, Wrap: cfg.wrapLogs}
	if err := n.ident.get().expectLog(&sc); err != nil {
		return nil, err
	}
	defer raftstore.FaultsPanic()()
	if n.stores, err = raftstore.Open(&sc); err != nil {
		return nil, err
	}
	undo = append(undo, func() { _ = n.stores.Close() })
	if err := n.checkState(); err != nil {
		return nil, err
	}
	if n.marks, err = n.openMarks(); err != nil {
		return nil, err
	}
	n.stream, err = transport.Listen(transport.StreamConfig{
		Addr: cfg.RaftAddr, Advertise: cfg.AdvertiseRaft, Greeting: n.marks.Greeting,
		TLS: cfg.TLS, PeersAt: n.peersAt, Fault: cfg.dialFault, Logger: n.log, Limit: cfg.LimitPeers,
	})
	if err != nil {
		return nil, err
	}
	guard := n.roster.Guard()
	guard.Greet = n.meet
	n.gate = transport.NewGate(n.stream, guard, n, n.log)
	undo = append(undo, func() { _ = n.gate.Close() })
	if !cfg.noNotices {
		n.driver.committed = n.gate.Committed
	}
	admitted := n.ident.get().Admitted && !n.marks.Copied()
	n.gate.Admit(admitted)
	rc := raftConfig(&n.cfg, admitted, n.terms.notify)
	if n.raft, err = startRaft(cfg.DataDir, rc, n.driver, n.stores, n.gate); err != nil {
		return nil, err
	}
	undo = append(undo, func() { _ = n.raft.Shutdown().Error() })
	n.gate.Attach(transport.Local{
		Voter: n.voterWithoutLeader, FirstIndex: n.stores.Logs.FirstIndex, Follows: n.sendsTo,
		Term: n.raft.CurrentTerm, Synced: n.stores.Synced, Replaces: n.stores.Replaces,
	})
	n.stores.WriteLate(n.needsVoters)
	others, _ := n.voters()
	if err := n.marks.JudgeCopy(others, n.founding.admit); err != nil {
		return nil, err
	}
	if cfg.raftStarted != nil {
		cfg.raftStarted(n)
	}
	n.gossip, err = gossip.Open(gossip.Config{
		NodeID: cfg.NodeID, Addr: cfg.GossipAddr, Advertise: cfg.AdvertiseGossip,
		KeyFile: cfg.GossipKeyFile, KeyInterval: cfg.keyInterval, Multiplier: cfg.RaftMultiplier, Logger: cfg.Logger,
		Limit: cfg.LimitPeers, Refused: n.metrics.refusedGossip.Inc,
	}, n.gossipMeta)
	if err != nil {
		return nil, err
	}
	n.book.Store(n.gossip)
	n.conns = peerconn.New(cfg.TLS, cfg.DialOptions, n.grpcAddr)
	n.terms.confirmer = readindex.NewConfirmer(n.life, n.voters, n.terms.askConfirm)
	n.committer.batch = newBatcher(n.raft, n.terms.notReady, n.metrics.batched)
	n.reader.indexes = readindex.NewCoalescer(n.life, n.reader.askReadIndex)
	n.roster.Ready()
	return n, nil
}

// checkState returns an error if the configuration contradicts Raft's state.
func (n *Node) checkState() error {
	has, err := n.stores.HasState()
	if err != nil {
		return fmt.Errorf("read raft state: %w", err)
	}
	if !has && n.cfg.BootstrapExpect == 1 && len(n.cfg.Join) > 0 {
		return fmt.Errorf("bootstrap expect 1 forms a new cluster, but join names %s: set only one of them",
			strings.Join(n.cfg.Join, ", "))
	}
	return nil
}

// gossipMeta returns the metadata that this peer gossips. It may be called before Raft
// knows the cluster.
func (n *Node) gossipMeta() *internalv1.GossipMeta {
	rec := n.ident.get()
	meta := &internalv1.GossipMeta{
		Id: n.cfg.NodeID, Instance: rec.Instance, ClusterId: rec.ClusterID,
		RaftAddr: n.stream.Addr().String(), GrpcAddr: n.cfg.AdvertiseGRPC, HttpAddr: n.cfg.AdvertiseHTTP,
		BootstrapExpect: uint32(n.cfg.BootstrapExpect), Bootstrapped: n.hasRaftState(),
		MaxFeatureLevel: n.cfg.level(), Version: n.cfg.Version, Start: n.start,
		AdmitManually: n.cfg.AdmitManually,
	}
	if err := n.failure(); err != nil {
		meta.Failure = gossip.Fit(meta, err.Error())
	}
	return meta
}

// voterWithoutLeader returns a voter of the latest configuration, if there is one and no
// leader is known. If a leader is known, candidates outside the configuration stay refused:
// such a candidate may be a removed peer that has not noticed.
func (n *Node) voterWithoutLeader() (raft.ServerID, bool) {
	if addr, _ := n.raft.LeaderWithID(); addr != "" {
		return "", false
	}
	for _, s := range n.servers() {
		if s.Suffrage == raft.Voter {
			return s.ID, true
		}
	}
	return "", false
}

// sendsTo reports whether this peer leads in the term, is not handing over, and replicates
// entries to the peer id.
func (n *Node) sendsTo(id raft.ServerID, term uint64) bool {
	if n.raft.State() != raft.Leader || n.raft.CurrentTerm() != term || n.terms.handingOver.Load() {
		return false
	}
	_, ok := n.server(string(id))
	return ok
}

// needsVoters reports whether this peer leads and needs the answer of another voter to commit an
// entry.
func (n *Node) needsVoters() bool {
	if n.raft.State() != raft.Leader {
		return false
	}
	return slices.ContainsFunc(n.raft.GetConfiguration().Configuration().Servers, func(s raft.Server) bool {
		return s.Suffrage == raft.Voter && s.ID != raft.ServerID(n.cfg.NodeID)
	})
}

// ServerAddr implements raft.ServerAddressProvider. It returns a peer's current address,
// from gossip or else from the state.
func (n *Node) ServerAddr(id raft.ServerID) (raft.ServerAddress, error) {
	if string(id) == n.cfg.NodeID {
		return raft.ServerAddress(n.stream.Addr().String()), nil
	}
	if g := n.book.Load(); g != nil {
		if m, ok := g.Peer(string(id)); ok {
			return raft.ServerAddress(m.Meta.GetRaftAddr()), nil
		}
	}
	if rec, ok := n.fsm.View().Peer(string(id)); ok && rec.GetRaftAddr() != "" {
		return raft.ServerAddress(rec.GetRaftAddr()), nil
	}
	return "", errors.New("no address known: the peer has not been seen in gossip")
}

// peersAt returns the peers with that Raft address, according to gossip and the state.
func (n *Node) peersAt(addr string) []string {
	var ids []string
	for _, rec := range n.fsm.View().Peers() {
		if rec.GetRaftAddr() == addr {
			ids = append(ids, rec.GetId())
		}
	}
	g := n.book.Load()
	if g == nil {
		return ids
	}
	for _, m := range g.Peers() {
		if m.Meta.GetRaftAddr() == addr {
			ids = append(ids, m.Meta.GetId())
		}
	}
	return ids
}

// grpcAddr returns the gRPC address of a peer.
func (n *Node) grpcAddr(id string) (string, bool) {
	if m, ok := n.gossip.Peer(id); ok && m.Meta.GetGrpcAddr() != "" {
		return m.Meta.GetGrpcAddr(), true
	}
	rec, ok := n.fsm.View().Peer(id)
	return rec.GetGrpcAddr(), ok && rec.GetGrpcAddr() != ""
}

// Leader returns the leader that this peer knows, and whether it is this peer. ok is false
// if no leader is known.
func (n *Node) Leader() (id string, self, ok bool) {
	_, l := n.raft.LeaderWithID()
	return string(l), string(l) == n.cfg.NodeID, l != ""
}

// Role returns this peer's Raft role: leader, follower, candidate or shutdown.
func (n *Node) Role() string { return strings.ToLower(n.raft.State().String()) }

// GossipAddr returns this peer's gossip address, which other peers name in Join.
func (n *Node) GossipAddr() string { return n.gossip.Addr() }

// RaftAddr returns the Raft address that this peer advertises.
func (n *Node) RaftAddr() string { return n.stream.Addr().String() }

// Close stops the peer at once without handing over, as a crash would. Run returns soon
// after. It is for tests, and for a Node that was never run.
func (n *Node) Close() {
	n.closeOnce.Do(func() { close(n.closing) })
	if !n.ran.Load() {
		_ = n.shutdown(context.Background(), false)
	}
}

// Ready reports whether this peer leads and accepts commands.
func (n *Node) Ready() bool {
	_, ok := n.terms.current()
	return ok
}
