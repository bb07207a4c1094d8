package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/cluster/internal/gossip"
	"github.com/holdfast-metal/holdfast/cluster/internal/peerconn"
	"github.com/holdfast-metal/holdfast/cluster/internal/raftstore"
	"github.com/holdfast-metal/holdfast/cluster/internal/readindex"
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
	stores *raftstore.Stores
	stream *transport.Stream
	gate   *transport.Gate
	raft   *raft.Raft
	driver *raftFSM
	gossip *gossip.Gossip
	book   atomic.Pointer[gossip.Gossip] // gossip, for ServerAddr, which Raft calls before gossip has started
	conns  *peerconn.Conns

	notify     chan bool // leadership changes, from Raft
	leadership atomic.Pointer[leadership]
	sessions   sessions
	departed   departed
	seen       conditions // the peers' conditions, as this leader observed them
	promise    promise
	confirmer  *readindex.Confirmer
	batch      *batcher
	indexes    *readindex.Coalescer
	routes     routes
	metrics    *metrics

	pauseRequests chan *pauseRequest        // requests for lead to pause the tasks
	changed       *wait.Signal              // fires when the leader or its readiness changes
	metaChanged   *wait.Signal              // fires when gossipMeta changes
	leaderless    atomic.Pointer[time.Time] // since when no leader has been known
	watching      atomic.Pointer[string]    // the peer that the death watch is connected to

	began time.Time       // the origin of this peer's monotonic clock
	timed atomic.Bool     // commands carry that clock, because the cluster has reached feature level 2
	life  context.Context // canceled when the node stops
	end   context.CancelFunc
	ended <-chan struct{}

	applied     atomic.Bool // this peer has applied the log that it found when it started
	handingOver atomic.Bool // a transfer is running, so sendsTo stops retries that would block it

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
	n := &Node{
		began: time.Now(),
		cfg:   cfg, log: cfg.Logger, fsm: f, driver: &raftFSM{fsm: f},
		notify: make(chan bool, 64), pauseRequests: make(chan *pauseRequest),
		changed: wait.NewSignal(), metaChanged: wait.NewSignal(), closing: make(chan struct{}),
	}
	n.life, n.end = context.WithCancel(context.Background())
	n.ended = n.life.Done()
	var undo []func()
	defer func() {
		if err != nil {
			for i := len(undo) - 1; i >= 0; i-- {
				undo[i]()
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
	sc := raftstore.Config{Dir: cfg.DataDir, LogStore: cfg.LogStore, Logger: cfg.Logger, Wrap: cfg.wrapLogs}
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
	clusterID := func() string { return n.ident.get().ClusterID }
	n.stream, err = transport.Listen(transport.StreamConfig{
		Addr: cfg.RaftAddr, Advertise: cfg.AdvertiseRaft, Cluster: clusterID,
		TLS: cfg.TLS, PeersAt: n.peersAt, Fault: cfg.dialFault, Logger: n.log,
	})
	if err != nil {
		return nil, err
	}
	n.gate = transport.NewGate(n.stream, n, n.log)
	undo = append(undo, func() { _ = n.gate.Close() })
	admitted := n.ident.get().Admitted
	n.gate.Admit(admitted)
	rc := raftConfig(&n.cfg, admitted, n.notify)
	if n.raft, err = startRaft(cfg.DataDir, rc, n.driver, n.stores, n.gate); err != nil {
		return nil, err
	}
	undo = append(undo, func() { _ = n.raft.Shutdown().Error() })
	n.gate.Attach(transport.Local{
		Voter: n.voterWithoutLeader, FirstIndex: n.stores.Logs.FirstIndex, Follows: n.sendsTo,
	})
	n.gossip, err = gossip.Open(gossip.Config{
		NodeID: cfg.NodeID, Addr: cfg.GossipAddr, Advertise: cfg.AdvertiseGossip,
		KeyFile: cfg.GossipKeyFile, KeyInterval: cfg.keyInterval, Multiplier: cfg.RaftMultiplier, Logger: cfg.Logger,
	}, n.gossipMeta)
	if err != nil {
		return nil, err
	}
	n.book.Store(n.gossip)
	n.conns = peerconn.New(cfg.TLS, cfg.DialOptions, n.grpcAddr)
	n.confirmer = readindex.NewConfirmer(n.life, n.voters, n.askConfirm)
	n.batch = newBatcher(n.raft, n.notReady, n.metrics.batched)
	n.indexes = readindex.NewCoalescer(n.life, n.askReadIndex)
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
	return &internalv1.GossipMeta{
		Id: n.cfg.NodeID, Instance: rec.Instance, ClusterId: rec.ClusterID,
		RaftAddr: n.stream.Addr().String(), GrpcAddr: n.cfg.AdvertiseGRPC, HttpAddr: n.cfg.AdvertiseHTTP,
		BootstrapExpect: uint32(n.cfg.BootstrapExpect), Bootstrapped: n.hasRaftState(),
		MaxFeatureLevel: n.cfg.level(), Version: n.cfg.Version,
	}
}

// admit lets this peer vote and stand for election. Its identity already records that.
func (n *Node) admit() {
	if !n.gate.Admit(true) {
		n.log.Info("this peer may vote")
		n.reload(n.cfg.awake)
	}
	n.metaChanged.Fire()
}

// servers returns the latest Raft configuration.
func (n *Node) servers() []raft.Server {
	f := n.raft.GetConfiguration()
	if f.Error() != nil {
		return nil
	}
	return f.Configuration().Servers
}

func (n *Node) server(id string) (raft.Server, bool) {
	for _, s := range n.servers() {
		if string(s.ID) == id {
			return s, true
		}
	}
	return raft.Server{}, false
}

// voters returns the other voters of the latest configuration, and whether this peer is one.
func (n *Node) voters() (others []string, self bool) {
	for _, s := range n.servers() {
		switch {
		case s.Suffrage != raft.Voter:
		case string(s.ID) == n.cfg.NodeID:
			self = true
		default:
			others = append(others, string(s.ID))
		}
	}
	return others, self
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
	if n.raft.State() != raft.Leader || n.raft.CurrentTerm() != term || n.handingOver.Load() {
		return false
	}
	_, ok := n.server(string(id))
	return ok
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
	if n.gossip == nil {
		return ids
	}
	for _, m := range n.gossip.Peers() {
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

var errNoVoter = errors.New("peer is not a voter: the leader has not promoted it yet")

// maxBehind is how many entries a restarted peer may still have to apply and count as
// ready. Applying that many takes some tens of milliseconds.
const maxBehind = 256

// Votes returns nil if the cluster can rely on this peer after losing another one, or an
// error with the reason. A peer that is new or lost its data has no vote until it has
// caught up. A peer that has just started still applies its log, and if it were elected
// then, all calls would wait for that.
func (n *Node) Votes() error {
	if !n.gate.Admitted() {
		return transport.ErrNotAdmitted
	}
	if _, self := n.voters(); !self {
		return errNoVoter
	}
	if n.applied.Load() {
		return nil
	}
	committed, applied := n.raft.CommitIndex(), n.fsm.Applied()
	if committed == 0 || committed > applied+maxBehind {
		return fmt.Errorf("peer has just started: %d of %d log entries applied",
			applied, max(committed, n.raft.LastIndex()))
	}
	n.applied.Store(true) // a peer that was there once only has to keep up
	return nil
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
	_, ok := n.current()
	return ok
}
