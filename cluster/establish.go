package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/cluster/internal/wait"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

const (
	// standDownTimeout bounds how long a new leader waits for old tasks on other peers to
	// end. A peer that cannot be reached cannot confirm its term either, so its tasks have
	// no effect.
	standDownTimeout = 500 * time.Millisecond
	// transferTimeout bounds the search for a successor.
	transferTimeout = 100 * time.Millisecond
)

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
		return 0, fmt.Errorf("%w: term %d has ended", ErrNotLeader, term)
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
			cmds = append(cmds, putPeer(record(m)))
		}
	}
	id := ts.n.ident.get().ClusterID
	if id == "" {
		id = uuid.NewString()
	}
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

// transfer hands the leadership to the most up-to-date voter that answers.
func (ts *terms) transfer(ctx context.Context) error {
	candidates := ts.successors(ctx)
	if len(candidates) == 0 {
		return errors.New("no other voter answers")
	}
	ts.handingOver.Store(true)
	defer ts.handingOver.Store(false)
	var errs []error
	for _, s := range candidates {
		err := wait.For(ctx, ts.n.raft.LeadershipTransferToServer(s.ID, s.Address))
		if err == nil || ts.n.raft.State() != raft.Leader {
			ts.n.log.Info("leadership handed over", "to", s.ID)
			return nil
		}
		errs = append(errs, fmt.Errorf("hand the leadership to %s: %w", s.ID, err))
	}
	return errors.Join(errs...)
}

// successors returns the other voters that answer, most up-to-date first.
func (ts *terms) successors(ctx context.Context) []raft.Server {
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		last  = map[raft.ServerID]uint64{}
		found []raft.Server
	)
	for _, s := range ts.n.servers() {
		if s.Suffrage != raft.Voter || string(s.ID) == ts.n.cfg.NodeID {
			continue
		}
		wg.Go(func() {
			st, err := ts.n.reporter.peerStats(ctx, string(s.ID))
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			last[s.ID] = st.GetLastIndex()
			found = append(found, s)
		})
	}
	wg.Wait()
	slices.SortStableFunc(found, func(a, b raft.Server) int {
		switch x, y := last[a.ID], last[b.ID]; {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	return found
}

// awaitSuccessor blocks until another peer leads and returns its id. ok is false if most
// has passed.
func (ts *terms) awaitSuccessor(ctx context.Context, most time.Duration) (id string, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		changed := ts.n.changed.Wait()
		if id, self, ok := ts.n.Leader(); ok && !self {
			return id, true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return "", false
		}
	}
}

func (ts *terms) transferTo(ctx context.Context, to string) error {
	if to == "" {
		return ts.transfer(ctx)
	}
	s, ok := ts.n.server(to)
	switch {
	case to == ts.n.cfg.NodeID:
		return fmt.Errorf("%s already leads", to)
	case !ok || s.Suffrage != raft.Voter:
		return fmt.Errorf("%s is not a voter", to)
	}
	ts.handingOver.Store(true)
	defer ts.handingOver.Store(false)
	addr, err := ts.n.ServerAddr(s.ID)
	if err != nil {
		return fmt.Errorf("hand the leadership to %s: %w", to, err)
	}
	if err := wait.For(ctx, ts.n.raft.LeadershipTransferToServer(s.ID, addr)); err != nil {
		return fmt.Errorf("hand the leadership to %s: %w", to, err)
	}
	return nil
}
