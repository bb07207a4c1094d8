package cluster

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/raft"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/cluster/internal/readindex"
	"github.com/holdfast-metal/holdfast/cluster/internal/wait"
	"github.com/holdfast-metal/holdfast/cluster/leader"
	"github.com/holdfast-metal/holdfast/cluster/outcome"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// standDownTimeout bounds how long a new leader waits for old tasks on other peers to end. A peer
// that cannot be reached cannot confirm its term either, so its tasks have no effect.
const standDownTimeout = 500 * time.Millisecond

// terms are the leaderships of this peer: it starts and ends the work of a term, proves that a term
// is current, and hands the leadership over.
type terms struct {
	n *Node

	notify        chan bool // leadership changes, from Raft
	leadership    atomic.Pointer[leadership]
	session       atomic.Pointer[session] // the running one; nil if there is none
	confirmer     *readindex.Confirmer
	pauseRequests chan *pauseRequest // requests for lead to pause the tasks
	handingOver   atomic.Bool        // a transfer is running, so sendsTo stops retries that would block it
}

// leadership is a term that is ready: this peer has applied the term's first command.
type leadership struct {
	term  uint64
	floor uint64 // the index of its first command
}

// current returns the leadership if this peer leads and is ready.
func (ts *terms) current() (leadership, bool) {
	r := ts.leadership.Load()
	if r == nil || !ts.leadsIn(r.term) {
		return leadership{}, false
	}
	return *r, true
}

// leadsIn reports whether this peer still leads in a term that it has led. No peer leads
// twice in one term.
func (ts *terms) leadsIn(term uint64) bool {
	return ts.n.raft.State() == raft.Leader && ts.n.raft.CurrentTerm() == term
}

// leading returns the term in which this peer leads.
func (ts *terms) leading() (uint64, bool) {
	term := ts.n.raft.CurrentTerm() // read before and after, because it may lose and stand in another term in between
	return term, ts.n.raft.State() == raft.Leader && ts.n.raft.CurrentTerm() == term
}

// notReady returns the reason why this peer cannot accept commands, or nil if it can.
func (ts *terms) notReady() error {
	if _, ok := ts.current(); ok {
		return nil
	}
	if ts.n.raft.State() == raft.Leader {
		return fmt.Errorf("%w yet: it is taking over", outcome.ErrNotLeader)
	}
	return outcome.ErrNotLeader
}

// runTerm does the work of one term.
func (ts *terms) runTerm(ctx context.Context, term uint64, tasks []leader.Task) error {
	start := time.Now()
	floor, err := ts.establish(ctx, term)
	if err != nil {
		return fmt.Errorf("establish term %d: %w", term, err)
	}
	ts.leadership.Store(&leadership{term: term, floor: floor})
	ts.n.changed.Fire()
	ts.n.log.Info("leading", "term", term, "index", floor, "took", time.Since(start))

	// Tasks of an old leader that has not noticed yet must end before ours begin.
	ts.standDownOthers(ctx, term)
	if err := ctx.Err(); err != nil {
		return err // it has not waited for them, so that no task of this term may begin
	}
	t := leader.NewTerm(term, func(ctx context.Context) error {
		// A task that ignores its context must not hold up the next leader.
		ctx, cancel := context.WithTimeout(ctx, taskConfirmTimeout)
		defer cancel()
		return ts.confirmTerm(ctx, term, "")
	})
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return ts.n.membership.reconcileMembers(gctx, term) })
	for _, task := range tasks {
		g.Go(func() error { return task.Run(gctx, t) })
	}
	err = g.Wait()
	if err == nil {
		<-ctx.Done()
	}
	return err
}

// establish brings a new leader's state up to date and commits its first command. In a new
// cluster that entry also holds the genesis, the founders and the cluster id, all or none.
// It returns the index of the entry.
func (ts *terms) establish(ctx context.Context, term uint64) (uint64, error) {
	if err := wait.For(ctx, ts.n.raft.Barrier(enqueueTimeout)); err != nil {
		return 0, fmt.Errorf("wait for earlier commands: %w", err)
	}
	cmds := []*internalv1.Command{{
		Op: &internalv1.Command_LeaderEstablished{
			LeaderEstablished: &internalv1.LeaderEstablished{PeerId: ts.n.cfg.NodeID, Term: term},
		},
	}}
	newCluster := ts.n.fsm.View().Meta().GetClusterId() == ""
	if newCluster {
		cmds = append(cmds, ts.genesis()...)
	}
	results, err := ts.n.committer.commitAll(ctx, cmds...)
	if err != nil {
		return 0, err
	}
	// failpoint: leader-established
	for i, r := range results {
		switch {
		case r.Err == nil:
		case i == 0:
			return 0, r.Err
		default:
			ts.n.log.Error("genesis command refused", "command", i, "error", r.Err)
		}
	}
	if ts.n.raft.CurrentTerm() != term {
		return 0, fmt.Errorf("%w: term %d has ended", outcome.ErrNotLeader, term)
	}
	if newCluster {
		ts.n.log.Info("cluster created", "cluster", ts.n.fsm.View().Meta().GetClusterId())
	}
	return results[0].Index, nil
}

// genesis returns the commands that create a cluster.
func (ts *terms) genesis() []*internalv1.Command {
	var cmds []*internalv1.Command
	for _, c := range ts.n.cfg.Genesis {
		cmds = append(cmds, proto.CloneOf(c))
	}
	for _, s := range ts.n.servers() {
		// A peer recorded before the first acknowledged write cannot have lost one.
		if m, ok := ts.n.gossip.Peer(string(s.ID)); ok {
			cmds = append(cmds, putPeer(ts.n.membership.record(m, nil)))
		}
	}
	id := cmp.Or(ts.n.ident.get().ClusterID, uuid.NewString())
	return append(cmds, &internalv1.Command{
		Op: &internalv1.Command_InitCluster{InitCluster: &internalv1.InitCluster{ClusterId: id}},
	})
}

// standDownOthers makes every other peer end the leader tasks of earlier terms. Peers that
// do not answer are skipped.
func (ts *terms) standDownOthers(ctx context.Context, term uint64) {
	ctx, cancel := context.WithTimeout(ctx, ts.n.cfg.standDown)
	defer cancel()
	var wg sync.WaitGroup
	for _, s := range ts.n.servers() {
		id := string(s.ID)
		if id == ts.n.cfg.NodeID {
			continue
		}
		wg.Go(func() {
			c, err := ts.n.conns.Peer(id)
			if err == nil {
				_, err = c.StandDown(ctx, &internalv1.StandDownRequest{Term: term})
			}
			if err != nil {
				ts.n.log.Debug("stand-down request failed", "id", id, "error", err)
			}
		})
	}
	wg.Wait()
}

// stepDown makes this peer refuse everything that only a ready leader may do.
func (ts *terms) stepDown(term uint64) {
	if r := ts.leadership.Load(); r != nil && r.term <= term {
		ts.leadership.Store(nil)
	}
	ts.confirmer.End(term + 1)
	ts.n.changed.Fire()
}

// confirmTerm returns nil only if a majority confirmed, after the call began, that the term is
// current. ackedBy names a peer that has already reported that since then; it may be empty.
func (ts *terms) confirmTerm(ctx context.Context, term uint64, ackedBy string) error {
	if r, ok := ts.current(); !ok || r.term != term {
		return fmt.Errorf("%w in term %d any more", outcome.ErrNotLeader, term)
	}
	if err := ts.confirmer.Confirm(ctx, term, ackedBy); err != nil {
		return fmt.Errorf("confirm term %d with a quorum: %w", term, err)
	}
	if r, ok := ts.current(); !ok || r.term != term {
		return fmt.Errorf("%w in term %d any more", outcome.ErrNotLeader, term)
	}
	return nil
}

// askConfirm returns nil if a peer confirms that it still has the term.
func (ts *terms) askConfirm(ctx context.Context, id string, term uint64) error {
	c, err := ts.n.conns.Peer(id)
	if err != nil {
		return err
	}
	r, err := c.Confirm(ctx, &internalv1.ConfirmRequest{Term: term, Known: ts.n.marks.Known(id)})
	if err != nil {
		return err
	}
	if r.GetPeerId() != id || r.GetTerm() != term {
		return fmt.Errorf("peer %s has term %d", r.GetPeerId(), r.GetTerm())
	}
	return nil
}
