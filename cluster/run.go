package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/cluster/internal/identity"
	"github.com/holdfast-metal/holdfast/cluster/internal/marks"
	"github.com/holdfast-metal/holdfast/cluster/internal/raftstore"
	"github.com/holdfast-metal/holdfast/cluster/internal/watchdog"
	"github.com/holdfast-metal/holdfast/cluster/leader"
	"github.com/holdfast-metal/holdfast/cluster/outcome"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// errClosed is the reason Run ends after Close.
var errClosed = errors.New("peer closed")

const measureEvery = 10 * time.Second // bolt's statistics

// ErrStalled is returned by Run if this peer leads but cannot commit, for example because
// its disk hangs. The others cannot replace such a leader, because it still sends
// heartbeats (hashicorp/raft#503). The process must exit at once.
var ErrStalled = watchdog.ErrStalled

// ErrDisk is returned by Run if the disk no longer stores the data that Raft depends on, or
// returns something else than was written. The process must exit at once.
var ErrDisk = raftstore.ErrDisk

// ErrStale is returned by Run if another peer remembers a later state of this peer's data
// directory. The directory has lost its vote. The next start catches up with the other peers.
var ErrStale = marks.ErrStale

// Work has the functions of the product that a peer calls while it runs. Each may be nil.
type Work struct {
	Tasks []leader.Task // while this peer leads
	// BeforeHandover is called when a leader is stopped. Its tasks have ended, but it still
	// leads. It has 5 s.
	BeforeHandover func(ctx context.Context)
	// Leases returns how many leases this peer keeps as the leader, and how many heartbeats
	// it receives a second, for the status.
	Leases func() (live int, rate float64)
	// BMCCalls returns how many operations on BMCs this peer has done, by provider, for the
	// status.
	BMCCalls func() []*holdfastv1.ProviderCalls
}

// Run runs the peer until ctx ends, and runs the tasks of its work while it leads. When ctx ends,
// Run stops the tasks, calls BeforeHandover, hands the leadership over, shuts down and returns
// nil. It returns ErrStalled if the disk hangs, ErrDisk if it has failed, and another error
// if the state machine has halted, the data belongs to another cluster, the leader lacks entries
// that this peer has applied, or its data directory is older than what it acknowledged (ErrStale).
// The process must exit then. Run may be called once.
func (n *Peer) Run(ctx context.Context, w Work) error {
	if n.ran.Swap(true) {
		return errors.New("run: called twice")
	}
	n.work.Store(&w)
	bg, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	leadCtx, stopLeading := context.WithCancelCause(bg)
	defer stopLeading(nil)

	fatal := make(chan error, 8)
	var wg sync.WaitGroup
	do := func(f func(context.Context) error) {
		wg.Go(func() {
			if err := f(bg); err != nil {
				fatal <- err
			}
		})
	}
	do(n.committer.Run)
	do(n.watchLeader)
	do(n.watcher.ResetStaleLeader)
	do(n.founding.Run)
	do(n.keepJoined)
	do(n.joins.Run)
	do(n.gossip.ReloadKeys)
	if n.cfg.TLS != nil {
		do(n.cfg.TLS.Run)
		do(func(ctx context.Context) error { return n.cfg.TLS.KeepRenewed(ctx, n.askRenewal) })
	}
	do(n.keepIdentity)
	do(n.keepMarks)
	do(n.watchdog.Run)
	do(n.clocks.Run)
	do(n.watchHalt)
	do(snapshotPolicy(n).Run)
	do(n.stores.WatchDisk)
	if n.stores.Measure != nil {
		do(func(ctx context.Context) error { n.stores.Measure(ctx, measureEvery); return nil })
	}
	if !n.cfg.NoDeathWatch {
		do(n.watcher.Run)
	}
	leading := make(chan struct{})
	go func() { // waited for below
		defer close(leading)
		n.terms.Lead(leadCtx, append([]leader.Task{n.members}, w.Tasks...))
	}()

	err := n.wait(ctx, fatal)
	stopLeading(cmp.Or(err, context.Cause(ctx)))
	if errors.Is(err, ErrStalled) || errors.Is(err, ErrDisk) {
		n.abandon()
		return err // everything else touches the disk and may hang
	}
	<-leading
	if err == nil {
		n.handOver(ctx, w.BeforeHandover)
	}
	serr := n.shutdown(context.WithoutCancel(ctx), err == nil)
	stop()
	if errors.Is(serr, errShutdownHangs) {
		return errors.Join(err, serr)
	}
	wg.Wait()
	if errors.Is(err, errClosed) {
		err = nil
	}
	return errors.Join(err, serr)
}

// wait blocks until there is a reason to stop. It returns nil if ctx has ended.
func (n *Peer) wait(ctx context.Context, fatal <-chan error) error {
	select {
	case <-ctx.Done():
		return nil
	case <-n.closing:
		return errClosed
	case err := <-fatal:
		n.fatal.Store(&err)
		n.log.Error("fatal error, stopping this peer", "error", err)
		return err
	}
}

// failure returns the error that makes this peer stop, or nil.
func (n *Peer) failure() error {
	if err := n.fatal.Load(); err != nil {
		return *err
	}
	return nil
}

// stopping returns the error for calls while this peer stops.
func (n *Peer) stopping() error {
	if err := n.failure(); err != nil {
		return fmt.Errorf("%w: %w", outcome.ErrStopping, err)
	}
	return outcome.ErrStopping
}

// keepJoined finds the other peers and rejoins them if they are missing.
func (n *Peer) keepJoined(ctx context.Context) error {
	known := func() map[string]string {
		m := map[string]string{}
		for _, p := range n.fsm.View().Peers() {
			m[p.GetId()] = p.GetGossipAddr()
		}
		return m
	}
	// A peer of the cluster from which this one was recovered must not stop it, nor may one that
	// is started later at a configured address.
	serving := func() bool {
		leader, _ := n.raft.LeaderWithID()
		return leader != "" || n.ident.Get().Recovered
	}
	return n.gossip.KeepJoined(ctx, n.cfg.Join, known, serving, n.cfg.scale(5*time.Second))
}

// watchHalt returns an error when the state machine halts at an entry that this build cannot apply.
func (n *Peer) watchHalt(ctx context.Context) error {
	select {
	case <-n.fsm.Halted():
		return n.fsm.HaltError()
	case <-ctx.Done():
		return nil
	}
}

// watchLeader notifies waiters when the leader changes.
func (n *Peer) watchLeader(ctx context.Context) error {
	ch := make(chan raft.Observation, 16)
	o := raft.NewObserver(ch, false, func(o *raft.Observation) bool {
		switch o.Data.(type) {
		case raft.LeaderObservation, raft.RaftState:
			return true
		}
		return false
	})
	n.raft.RegisterObserver(o)
	defer n.raft.DeregisterObserver(o)
	for {
		select {
		case <-ch:
			n.noteLeader()
			n.changed.Fire()
		case <-ctx.Done():
			return nil
		}
	}
}

// noteLeader records since when no leader has been known.
func (n *Peer) noteLeader() {
	if _, _, ok := n.Leader(); ok {
		n.leaderless.Store(nil)
		return
	}
	now := time.Now()
	n.leaderless.CompareAndSwap(nil, &now)
}

// keepIdentity stores the cluster id once the state has it, and gossips changes of this
// peer's metadata.
func (n *Peer) keepIdentity(ctx context.Context) error {
	for {
		meta, changed := n.metaChanged.Wait(), n.fsm.Changed()
		if err := n.learnCluster(); err != nil {
			return err
		}
		n.gossip.Publish()
		if m := n.gossipMeta(); m.GetClusterId() != "" && m.GetBootstrapped() && len(n.ident.Get().Forming) == 0 {
			changed = nil // nothing more to learn from the state
		}
		select {
		case <-meta:
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

func (n *Peer) learnCluster() error {
	id := n.fsm.View().Meta().GetClusterId()
	rec := n.ident.Get()
	if id == "" || rec.ClusterID == id && len(rec.Forming) == 0 {
		return nil
	}
	if rec.ClusterID != "" && rec.ClusterID != id {
		return fmt.Errorf("peer %s at %s has data of cluster %s but its identity names cluster %s: "+
			"%s",
			n.cfg.PeerID, n.RaftAddr(), id, rec.ClusterID, raftstore.DamageAdvice)
	}
	err := n.ident.Update(func(r *identity.Record) error {
		r.ClusterID, r.Forming = id, nil
		return nil
	})
	// failpoint: cluster-learned
	return err
}
