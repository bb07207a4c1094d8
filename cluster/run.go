package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/cluster/internal/transport"
	"github.com/holdfast-metal/holdfast/cluster/internal/wait"
	"github.com/holdfast-metal/holdfast/cluster/outcome"
)

const (
	handoverTimeout = 5 * time.Second
	leaveTimeout    = 5 * time.Second
	hangUpAfter     = time.Second
	measureEvery    = 10 * time.Second // bolt's statistics
)

// errClosed is the reason Run ends after Close.
var errClosed = errors.New("peer closed")

// Run runs the peer until ctx ends, and runs the tasks of its work while it leads. When ctx ends,
// Run stops the tasks, calls BeforeHandover, hands the leadership over, shuts down and returns
// nil. It returns ErrStalled if the disk hangs, ErrDisk if it has failed, and another error
// if the state machine has halted, the data belongs to another cluster, the leader lacks entries
// that this peer has applied, or its data directory is older than what it acknowledged (ErrStale).
// The process must exit then. Run may be called once.
func (n *Node) Run(ctx context.Context, w Work) error {
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
	for range entriesInFlight {
		do(func(ctx context.Context) error { n.committer.batch.run(ctx); return nil })
	}
	do(n.watchLeader)
	do(n.watcher.resetStaleLeader)
	do(n.founding.bootstrap)
	do(n.keepJoined)
	do(n.joins.Run)
	do(n.gossip.ReloadKeys)
	if n.cfg.TLS != nil {
		do(n.cfg.TLS.Run)
		do(func(ctx context.Context) error { return n.cfg.TLS.KeepRenewed(ctx, n.membership.askRenewal) })
	}
	do(n.keepIdentity)
	do(n.keepMarks)
	do(n.watchdog.run)
	do(n.clocks.run)
	do(n.watchHalt)
	do(n.snapshotPolicy().Run)
	do(n.stores.WatchDisk)
	if n.stores.Measure != nil {
		do(func(ctx context.Context) error { n.stores.Measure(ctx, measureEvery); return nil })
	}
	if !n.cfg.NoDeathWatch {
		do(n.watcher.run)
	}
	leading := make(chan struct{})
	go func() { // waited for below
		defer close(leading)
		n.terms.lead(leadCtx, w.Tasks)
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
func (n *Node) wait(ctx context.Context, fatal <-chan error) error {
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
func (n *Node) failure() error {
	if err := n.fatal.Load(); err != nil {
		return *err
	}
	return nil
}

// stopping returns the error for calls while this peer stops.
func (n *Node) stopping() error {
	if err := n.failure(); err != nil {
		return fmt.Errorf("%w: %w", outcome.ErrStopping, err)
	}
	return outcome.ErrStopping
}

// lastWords is the time for answers of pending calls to leave.
const lastWords = 100 * time.Millisecond

// abandon ends this peer's part in the cluster without touching the disk: the others see its
// connections close and elect a leader, pending calls are answered, and gossip spreads the reason.
func (n *Node) abandon() {
	n.gate.HangUp()
	_ = n.stream.Close()
	n.terms.stepDown(n.raft.CurrentTerm())
	n.end()
	n.gossip.Publish()
	time.Sleep(lastWords)
}

// handOver calls before, transfers the leadership, and ends the membership if LeaveOnStop is set.
// The leader's tasks have stopped.
func (n *Node) handOver(ctx context.Context, before func(context.Context)) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), handoverTimeout)
	defer cancel()
	if _, ok := n.terms.current(); ok && before != nil {
		before(ctx)
	}
	if n.raft.State() == raft.Leader {
		if others, _ := n.voters(); len(others) > 0 {
			if err := n.terms.transfer(ctx); err != nil {
				n.log.Warn("leadership transfer failed", "error", err)
			} else {
				// This peer votes for its successor. If its listener closed first, the
				// death watches of the others would stand against the successor.
				n.terms.awaitSuccessor(ctx, n.cfg.scale(baseHeartbeat))
			}
		}
	}
	if n.cfg.LeaveOnStop {
		if err := n.leave(ctx); err != nil {
			n.log.Error("leaving the cluster failed: remove this peer by hand", "error", err)
		}
	}
}

var errShutdownHangs = errors.New("raft shutdown timed out: the disk may hang")

// shutdown closes everything that New opened.
func (n *Node) shutdown(ctx context.Context, orderly bool) error {
	if !orderly {
		_ = n.stream.Close() // as a crash would
	}
	ctx, cancel := context.WithTimeout(ctx, transport.ShutdownTimeout)
	defer cancel()
	err := n.shutdownRaft(ctx)
	n.end() // after Raft has answered the pending calls
	n.terms.stepDown(n.raft.CurrentTerm())
	n.gossip.Close(orderly)
	n.conns.Close()
	if errors.Is(err, wait.ErrStopped) {
		return errShutdownHangs
	}
	return errors.Join(err, n.closeStores(ctx, orderly))
}

// closeStores waits for the last write, and for the disk.
func (n *Node) closeStores(ctx context.Context, orderly bool) error {
	closed := make(chan error, 1)
	go func() { // ends with the write
		var noted error
		if orderly {
			noted = n.marks.Stop()
		}
		closed <- errors.Join(noted, n.stores.Close())
	}()
	select {
	case err := <-closed:
		return err
	case <-ctx.Done():
		return errShutdownHangs
	}
}

// shutdownRaft waits until Raft has shut down. Raft waits for its calls to other peers, and
// a hanging peer answers none, so after hangUpAfter their connections are closed.
func (n *Node) shutdownRaft(ctx context.Context) error {
	ending := n.raft.Shutdown()
	soon, cancel := context.WithTimeout(ctx, hangUpAfter)
	defer cancel()
	err := wait.For(soon, ending)
	if errors.Is(err, wait.ErrStopped) {
		n.gate.HangUp()
		err = wait.For(ctx, ending)
	}
	return err
}

// keepJoined finds the other peers and rejoins them if they are missing.
func (n *Node) keepJoined(ctx context.Context) error {
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
		return leader != "" || n.ident.get().Recovered
	}
	return n.gossip.KeepJoined(ctx, n.cfg.Join, known, serving, n.cfg.scale(5*time.Second))
}

// watchHalt returns an error when the state machine halts at an entry that this build cannot apply.
func (n *Node) watchHalt(ctx context.Context) error {
	select {
	case <-n.fsm.Halted():
		return n.fsm.HaltError()
	case <-ctx.Done():
		return nil
	}
}

// watchLeader notifies waiters when the leader changes.
func (n *Node) watchLeader(ctx context.Context) error {
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
func (n *Node) noteLeader() {
	if _, _, ok := n.Leader(); ok {
		n.leaderless.Store(nil)
		return
	}
	now := time.Now()
	n.leaderless.CompareAndSwap(nil, &now)
}
