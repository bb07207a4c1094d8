package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/cluster/internal/gossip"
	"github.com/holdfast-metal/holdfast/cluster/internal/liblog"
	"github.com/holdfast-metal/holdfast/cluster/internal/raftstore"
	"github.com/holdfast-metal/holdfast/fsm"
)

// dormant is the election timeout of a peer that may not vote. Its partial log could hold an old
// configuration in which it alone is the majority.
const dormant = 10 * 365 * 24 * time.Hour

// raftConfig returns Raft's configuration. A peer that is not admitted gets dormant
// timeouts.
func raftConfig(cfg *Config, admitted bool, notify chan<- bool) *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(cfg.PeerID)
	c.HeartbeatTimeout, c.ElectionTimeout = dormant, dormant
	if admitted {
		c.HeartbeatTimeout, c.ElectionTimeout = cfg.scale(baseHeartbeat), cfg.scale(baseHeartbeat)
	}
	c.LeaderLeaseTimeout = cfg.scale(baseLease)
	// Followers learn of a commit from a notice of the transport. If it is lost, they learn of
	// it with the next entry or after this timeout.
	c.CommitTimeout = cmp.Or(cfg.commitTimeout, 100*time.Millisecond)
	// Raft allocates 8 bytes for each on every request and every commit. Fewer would make a
	// follower that is behind catch up slowly without writes: one request each CommitTimeout.
	c.MaxAppendEntries = 256
	c.SnapshotThreshold = cfg.SnapshotThreshold
	c.SnapshotInterval = cfg.SnapshotInterval
	c.TrailingLogs = cfg.TrailingLogs
	c.ShutdownOnRemove = false
	c.NoLegacyTelemetry = true
	c.NotifyCh = notify
	c.Logger = liblog.New(cfg.Logger, "raft")
	return c
}

// startRaft restores the state and starts Raft. It returns an error if the log or the
// snapshots are damaged.
func startRaft(
	dir string,
	c *raft.Config,
	f raft.FSM,
	s *raftstore.Stores,
	t raft.Transport,
) (r *raft.Raft, err error) {
	defer raftstore.Damage("start raft", &err)
	r, err = raft.NewRaft(c, f, s.Logs, s.Stable, s.Snaps, t)
	if err != nil {
		return nil, fmt.Errorf("start raft from data directory %s: %w: %s", dir, err, raftstore.DamageAdvice)
	}
	return r, nil
}

// consensus is Raft on this peer, with what its configuration says.
type consensus struct {
	*raft.Raft
	self string
	log  *slog.Logger

	reloading sync.Mutex // guards changes of the configuration
}

// leads reports whether Raft leads, ready or not.
func (c *consensus) leads() bool { return c.State() == raft.Leader }

// awake sets the election timeouts of an admitted peer.
func (c *Config) awake(rc *raft.ReloadableConfig) {
	rc.HeartbeatTimeout, rc.ElectionTimeout = c.scale(baseHeartbeat), c.scale(baseHeartbeat)
}

// reload changes Raft's configuration. Concurrent changes would undo each other.
func (c *consensus) reload(change func(*raft.ReloadableConfig)) {
	c.reloading.Lock()
	defer c.reloading.Unlock()
	rc := c.ReloadableConfig()
	change(&rc)
	if err := c.ReloadConfig(rc); err != nil {
		c.log.Error("cannot change Raft's configuration", "error", err)
	}
}

// snapshotPolicy returns the policy that creates a peer's snapshots.
func snapshotPolicy(n *Peer) *raftstore.Policy {
	return &raftstore.Policy{
		Raft: n.raft, Snaps: n.stores.Snaps, Meter: n.driver.Meter(), Reload: n.raft.reload,
		Interval: n.cfg.snapshotCheckInterval, LogBytes: n.cfg.logBytes, TrailingLogs: n.cfg.TrailingLogs,
		Logger: n.log,
	}
}

// servers returns the latest Raft configuration.
func (c *consensus) servers() []raft.Server {
	f := c.GetConfiguration()
	if f.Error() != nil {
		return nil
	}
	return f.Configuration().Servers
}

// voters returns the other voters of the latest configuration, and whether this peer is one.
func (c *consensus) voters() (others []string, self bool) {
	for _, s := range c.servers() {
		switch {
		case s.Suffrage != raft.Voter:
		case string(s.ID) == c.self:
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
func (c *consensus) voterWithoutLeader() (raft.ServerID, bool) {
	if addr, _ := c.LeaderWithID(); addr != "" {
		return "", false
	}
	for _, s := range c.servers() {
		if s.Suffrage == raft.Voter {
			return s.ID, true
		}
	}
	return "", false
}

// sendsTo reports whether this peer leads in the term and replicates entries to the peer id.
func (c *consensus) sendsTo(id raft.ServerID, term uint64) bool {
	return c.State() == raft.Leader && c.CurrentTerm() == term &&
		slices.ContainsFunc(c.servers(), func(s raft.Server) bool { return s.ID == id })
}

// needsVoters reports whether this peer leads and needs the answer of another voter to commit an
// entry.
func (c *consensus) needsVoters() bool {
	if c.State() != raft.Leader {
		return false
	}
	return slices.ContainsFunc(c.GetConfiguration().Configuration().Servers, func(s raft.Server) bool {
		return s.Suffrage == raft.Voter && s.ID != raft.ServerID(c.self)
	})
}

// hasState reports whether this peer has ever been part of a cluster.
func (c *consensus) hasState() bool { return c.LastIndex() > 0 || c.CurrentTerm() > 0 }

// allowVote lets this peer vote and stand for election. Its identity already records that.
func (n *Peer) allowVote() {
	if !n.gate.Admit(true) {
		n.log.Info("this peer may vote")
		n.raft.reload(n.cfg.awake)
	}
	n.metaChanged.Fire()
}

// addresses knows where the peers are, from gossip or else from the state.
type addresses struct {
	self   string
	own    func() string                 // the Raft address of this peer
	gossip atomic.Pointer[gossip.Gossip] // nil until gossip has started: Raft asks before
	view   func() *fsm.View
}

// ServerAddr implements raft.ServerAddressProvider. It returns a peer's current address,
// from gossip or else from the state.
func (a *addresses) ServerAddr(id raft.ServerID) (raft.ServerAddress, error) {
	if string(id) == a.self {
		return raft.ServerAddress(a.own()), nil
	}
	if g := a.gossip.Load(); g != nil {
		if m, ok := g.Peer(string(id)); ok {
			return raft.ServerAddress(m.Meta.GetRaftAddr()), nil
		}
	}
	if rec, ok := a.view().Peer(string(id)); ok && rec.GetRaftAddr() != "" {
		return raft.ServerAddress(rec.GetRaftAddr()), nil
	}
	return "", errors.New("no address known: the peer has not been seen in gossip")
}

// peersAt returns the peers with that Raft address, according to gossip and the state.
func (a *addresses) peersAt(addr string) []string {
	var ids []string
	for _, rec := range a.view().Peers() {
		if rec.GetRaftAddr() == addr {
			ids = append(ids, rec.GetId())
		}
	}
	g := a.gossip.Load()
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
func (a *addresses) grpcAddr(id string) (string, bool) {
	if g := a.gossip.Load(); g != nil {
		if m, ok := g.Peer(id); ok && m.Meta.GetGrpcAddr() != "" {
			return m.Meta.GetGrpcAddr(), true
		}
	}
	rec, ok := a.view().Peer(id)
	return rec.GetGrpcAddr(), ok && rec.GetGrpcAddr() != ""
}
