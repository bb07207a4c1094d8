// Package cluster owns the distributed parts of a peer: Raft and its stores, gossip,
// bootstrap, membership changes, leadership, commits, linearizable reads, and the
// forwarding of calls to the leader.
//
// It knows no resources. Machines, plans and runs are opaque to it, and a command is bytes
// with a result. It must not import executor, server or providers. Its only state is the
// peer's own identity and Raft's data.
//
// New creates a Peer and opens its data directory and listeners. Run does the work and
// blocks.
//
// The parts are packages below internal, which receive functions and never the Peer: propose
// commits commands, terms begins and ends the leadership, members changes the membership as a task
// of the leader, read makes reads linearizable, and route sends calls to the peer that can answer
// them.
//
// The files in reading order: node.go creates a peer, wire.go connects its parts, run.go runs it
// and stop.go stops it. The product calls api.go. peer.go serves other peers and ask.go asks them.
package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/cluster/internal/clockcheck"
	"github.com/holdfast-metal/holdfast/cluster/internal/deathwatch"
	"github.com/holdfast-metal/holdfast/cluster/internal/founding"
	"github.com/holdfast-metal/holdfast/cluster/internal/gossip"
	"github.com/holdfast-metal/holdfast/cluster/internal/identity"
	"github.com/holdfast-metal/holdfast/cluster/internal/joinwatch"
	"github.com/holdfast-metal/holdfast/cluster/internal/marks"
	"github.com/holdfast-metal/holdfast/cluster/internal/members"
	"github.com/holdfast-metal/holdfast/cluster/internal/peerauth"
	"github.com/holdfast-metal/holdfast/cluster/internal/peerconn"
	"github.com/holdfast-metal/holdfast/cluster/internal/propose"
	"github.com/holdfast-metal/holdfast/cluster/internal/raftfsm"
	"github.com/holdfast-metal/holdfast/cluster/internal/raftstore"
	"github.com/holdfast-metal/holdfast/cluster/internal/read"
	"github.com/holdfast-metal/holdfast/cluster/internal/roster"
	"github.com/holdfast-metal/holdfast/cluster/internal/route"
	"github.com/holdfast-metal/holdfast/cluster/internal/terms"
	"github.com/holdfast-metal/holdfast/cluster/internal/transport"
	"github.com/holdfast-metal/holdfast/cluster/internal/wait"
	"github.com/holdfast-metal/holdfast/cluster/internal/watchdog"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Peer is one peer of a cluster.
type Peer struct {
	cfg    Config
	log    *slog.Logger
	fsm    *fsm.FSM
	ident  *identity.Store
	marks  *marks.Keeper
	stores *raftstore.Stores
	stream *transport.Stream
	gate   *transport.Gate
	raft   *consensus
	driver *raftfsm.FSM
	gossip *gossip.Gossip
	conns  *peerconn.Conns
	addrs  *addresses
	ask    *asker
	report reporter

	committer *propose.Committer
	terms     *terms.Terms
	members   *members.Members
	roster    *roster.Roster
	guard     *peerauth.Guard
	reader    *read.Reader
	router    *route.Router
	founding  *founding.Founding
	watcher   *deathwatch.Watcher
	watchdog  *watchdog.Watchdog
	clocks    *clockcheck.Check
	joins     *joinwatch.Watch
	past      route.Past
	metrics   *metrics
	work      atomic.Pointer[Work] // set by Run

	notify      chan bool                 // leadership changes, from Raft
	changed     *wait.Signal              // fires when the leader or its readiness changes
	metaChanged *wait.Signal              // fires when gossipMeta changes
	leaderless  atomic.Pointer[time.Time] // since when no leader has been known
	fatal       atomic.Pointer[error]     // the error that makes this peer stop

	began time.Time       // when the process started: it distinguishes it from the one before
	life  context.Context // canceled when the peer stops
	end   context.CancelFunc
	ended <-chan struct{}

	opened  atomic.Bool // New has succeeded
	applied atomic.Bool // this peer has applied the log that it found when it started

	closeOnce sync.Once
	closing   chan struct{}
	ran       atomic.Bool
}

// New opens the data directory, the listeners and gossip, restores the state into f and
// starts Raft. It returns an error if a port or the directory is in use, if the directory
// belongs to another peer, or if its files are damaged. The Peer works in Run. A Peer that
// is not run must be closed.
func New(cfg Config, f *fsm.FSM) (_ *Peer, err error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	n := &Peer{
		cfg: cfg, log: cfg.Logger, fsm: f, driver: raftfsm.New(f), notify: make(chan bool, 64),
		changed: wait.NewSignal(), metaChanged: wait.NewSignal(), closing: make(chan struct{}), began: time.Now(),
	}
	n.report = reporter{n}
	n.addrs = &addresses{self: cfg.PeerID, own: n.RaftAddr, view: f.View}
	n.conns = peerconn.New(cfg.TLS, cfg.DialOptions, n.addrs.grpcAddr)
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
	defer raftstore.FaultsPanic()()
	if err := n.openStores(); err != nil {
		return nil, err
	}
	undo = append(undo, func() { _ = n.stores.Close() })
	if err := n.checkState(); err != nil {
		return nil, err
	}
	if n.marks, err = n.openMarks(); err != nil {
		return nil, err
	}
	if err := n.listen(); err != nil {
		return nil, err
	}
	undo = append(undo, func() { _ = n.gate.Close() })
	if err := n.startRaft(); err != nil {
		return nil, err
	}
	undo = append(undo, func() { _ = n.raft.Shutdown().Error() })
	n.wireLeader()
	n.attach()
	others, _ := n.raft.voters()
	if err := n.marks.JudgeCopy(others, n.allowVote); err != nil {
		return nil, err
	}
	if cfg.raftStarted != nil {
		cfg.raftStarted(n)
	}
	n.gossip, err = gossip.Open(gossip.Config{
		PeerID: cfg.PeerID, Addr: cfg.GossipAddr, Advertise: cfg.AdvertiseGossip,
		KeyFile: cfg.GossipKeyFile, KeyInterval: cfg.keyInterval, Multiplier: cfg.RaftMultiplier, Logger: cfg.Logger,
		Limit: cfg.LimitPeers, Refused: n.metrics.refusedGossip.Inc,
	}, n.gossipMeta)
	if err != nil {
		return nil, err
	}
	n.addrs.gossip.Store(n.gossip)
	n.wireMembers()
	n.wireCalls()
	n.roster.Ready()
	n.opened.Store(true)
	return n, nil
}

// openStores opens the identity and the stores of the data directory.
func (n *Peer) openStores() (err error) {
	if n.ident, err = identity.Open(n.cfg.DataDir, n.cfg.PeerID); err != nil {
		return err
	}
	sc := raftstore.Config{Dir: n.cfg.DataDir, LogStore: n.cfg.LogStore, Applied: n.fsm.Applied,
		Logger: n.cfg.Logger, Wrap: n.cfg.wrapLogs}
	if err := n.ident.Get().ExpectLog(&sc); err != nil {
		return err
	}
	n.stores, err = raftstore.Open(&sc)
	return err
}

// listen opens the port of Raft.
func (n *Peer) listen() (err error) {
	n.stream, err = transport.Listen(transport.StreamConfig{
		Addr: n.cfg.RaftAddr, Advertise: n.cfg.AdvertiseRaft, Greeting: n.marks.Greeting,
		TLS: n.cfg.TLS, PeersAt: n.addrs.peersAt, Fault: n.cfg.dialFault, Logger: n.log, Limit: n.cfg.LimitPeers,
	})
	if err != nil {
		return err
	}
	guard := n.roster.Guard()
	guard.Greet = n.meet
	n.gate = transport.NewGate(n.stream, guard, n.addrs, n.log)
	if !n.cfg.noNotices {
		n.driver.Committed = n.gate.Committed
	}
	return nil
}

// startRaft starts Raft, which restores the state.
func (n *Peer) startRaft() error {
	admitted := n.ident.Get().Admitted && !n.marks.Copied()
	n.gate.Admit(admitted)
	r, err := startRaft(n.cfg.DataDir, raftConfig(&n.cfg, admitted, n.notify), n.driver, n.stores, n.gate)
	n.raft = &consensus{Raft: r, self: n.cfg.PeerID, log: n.log}
	return err
}

// attach lets requests of other peers reach Raft.
func (n *Peer) attach() {
	n.gate.Attach(transport.Local{
		Voter: n.raft.voterWithoutLeader, FirstIndex: n.stores.Logs.FirstIndex,
		Follows: func(id raft.ServerID, term uint64) bool {
			return n.raft.sendsTo(id, term) && !n.terms.HandingOver()
		},
		Term: n.raft.CurrentTerm, Synced: n.stores.Synced, Replaces: n.stores.Replaces,
	})
	n.stores.WriteLate(n.raft.needsVoters)
}

// checkState returns an error if the configuration contradicts Raft's state.
func (n *Peer) checkState() error {
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
func (n *Peer) gossipMeta() *internalv1.GossipMeta {
	rec := n.ident.Get()
	meta := &internalv1.GossipMeta{
		Id: n.cfg.PeerID, Instance: rec.Instance, ClusterId: rec.ClusterID,
		RaftAddr: n.stream.Addr().String(), GrpcAddr: n.cfg.AdvertiseGRPC, HttpAddr: n.cfg.AdvertiseHTTP,
		BootstrapExpect: uint32(n.cfg.BootstrapExpect), Bootstrapped: n.raft.hasState(),
		MaxFeatureLevel: n.cfg.level(), Version: n.cfg.Version, Start: n.began.UnixNano(),
		AdmitManually: n.cfg.AdmitManually,
	}
	if err := n.failure(); err != nil {
		meta.Failure = gossip.Fit(meta, err.Error())
	}
	return meta
}
