package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/cluster/internal/liblog"
	"github.com/holdfast-metal/holdfast/cluster/internal/raftstore"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// dormant is the election timeout of a peer that may not vote. Its partial log could hold an old
// configuration in which it alone is the majority.
const dormant = 10 * 365 * 24 * time.Hour

// raftConfig returns Raft's configuration. A peer that is not admitted gets dormant
// timeouts.
func raftConfig(cfg *Config, admitted bool, notify chan<- bool) *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(cfg.NodeID)
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

// awake sets the election timeouts of an admitted peer.
func (c *Config) awake(rc *raft.ReloadableConfig) {
	rc.HeartbeatTimeout, rc.ElectionTimeout = c.scale(baseHeartbeat), c.scale(baseHeartbeat)
}

// reload changes Raft's configuration. Concurrent changes would undo each other.
func (n *Node) reload(change func(*raft.ReloadableConfig)) {
	n.reloading.Lock()
	defer n.reloading.Unlock()
	c := n.raft.ReloadableConfig()
	change(&c)
	if err := n.raft.ReloadConfig(c); err != nil {
		n.log.Error("cannot change Raft's configuration", "error", err)
	}
}

// snapshotPolicy returns the policy that creates this peer's snapshots.
func (n *Node) snapshotPolicy() *raftstore.Policy {
	return &raftstore.Policy{
		Raft: n.raft, Snaps: n.stores.Snaps, Meter: &n.driver.meter, Reload: n.reload,
		Interval: n.cfg.snapshotCheckInterval, LogBytes: n.cfg.logBytes, TrailingLogs: n.cfg.TrailingLogs,
		Logger: n.log,
	}
}

// raftFSM connects Raft to the FSM. Raft calls it from one goroutine.
type raftFSM struct {
	fsm     *fsm.FSM
	applied atomic.Uint64            // log entries applied by this process, for the watchdog
	now     atomic.Pointer[applying] // the entry that is being applied; nil: none
	meter   raftstore.Meter
	// committed is called with each entry before it is applied. It must not block, and may be nil.
	committed func(index, term uint64)
}

var (
	_ raft.FSM                = (*raftFSM)(nil)
	_ raft.ConfigurationStore = (*raftFSM)(nil)
)

// applying is an entry that is being applied.
type applying struct {
	log   *raft.Log
	began time.Time
}

// busy reports whether one entry has been applied for at least d.
func (r *raftFSM) busy(d time.Duration) bool {
	a := r.now.Load()
	return a != nil && time.Since(a.began) >= d
}

// kinds returns the names of the entry's commands, at most three.
func (a *applying) kinds() string {
	var e internalv1.Entry
	if err := proto.Unmarshal(a.log.Data, &e); err != nil {
		return "unknown"
	}
	var names []string
	for i, c := range e.GetCommands() {
		if i == 3 {
			names = append(names, fmt.Sprintf("and %d more", len(e.GetCommands())-i))
			break
		}
		m := c.ProtoReflect()
		if op := m.WhichOneof(m.Descriptor().Oneofs().ByName("op")); op != nil {
			names = append(names, string(op.Name()))
		}
	}
	return strings.Join(names, ", ")
}

// Apply implements raft.FSM. It returns a []fsm.Result, one for each command of the entry.
func (r *raftFSM) Apply(l *raft.Log) any {
	// failpoint: entry-committed
	if r.committed != nil {
		r.committed(l.Index, l.Term)
	}
	r.now.Store(&applying{log: l, began: time.Now()})
	results := r.fsm.Apply(l.Index, l.Term, l.Data)
	r.now.Store(nil)
	// failpoint: entry-applied
	r.applied.Add(1)
	r.meter.Add(l.Data)
	return results
}

// StoreConfiguration implements raft.ConfigurationStore. A configuration change advances
// the visible index, so that no call waits for it in vain. Raft does not pass its term
// here. The term of the preceding command is the same on every peer, so snapshots stay
// byte-equal.
func (r *raftFSM) StoreConfiguration(index uint64, _ raft.Configuration) {
	r.fsm.Observe(index, r.fsm.View().Meta().GetAppliedTerm())
	r.applied.Add(1)
}

// Snapshot implements raft.FSM.
func (r *raftFSM) Snapshot() (raft.FSMSnapshot, error) {
	s, err := r.fsm.Snapshot()
	if err != nil {
		return nil, err
	}
	return raftSnapshot{s, r.meter.Mark(), &r.meter}, nil
}

// Restore implements raft.FSM.
func (r *raftFSM) Restore(rc io.ReadCloser) error {
	err := r.fsm.Restore(rc)
	if err == nil {
		r.meter.Store(r.meter.Mark()) // it is on disk
	}
	// failpoint: snapshot-restored
	return errors.Join(err, rc.Close())
}

type raftSnapshot struct {
	snap  io.WriterTo
	has   raftstore.LogSize
	meter *raftstore.Meter
}

// Persist implements raft.FSMSnapshot.
func (s raftSnapshot) Persist(sink raft.SnapshotSink) error {
	if _, err := s.snap.WriteTo(sink); err != nil {
		return errors.Join(fmt.Errorf("persist snapshot %s: %w", sink.ID(), err), sink.Cancel())
	}
	// failpoint: snapshot-written
	err := sink.Close()
	// failpoint: snapshot-stored
	if err == nil {
		s.meter.Store(s.has)
	}
	return err
}

// Release implements raft.FSMSnapshot. The state is shared and garbage-collected.
func (raftSnapshot) Release() {}
