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
func (n *Node) establish(ctx context.Context, term uint64) (uint64, error) {
	if err := wait.For(ctx, n.raft.Barrier(enqueueTimeout)); err != nil {
		return 0, fmt.Errorf("wait for earlier commands: %w", err)
	}
	cmds := []*internalv1.Command{{
		Op: &internalv1.Command_LeaderEstablished{
			LeaderEstablished: &internalv1.LeaderEstablished{PeerId: n.cfg.NodeID, Term: term},
		},
	}}
	newCluster := n.fsm.View().Meta().GetClusterId() == ""
	if newCluster {
		cmds = append(cmds, n.genesis()...)
	}
	results, err := n.commitAll(ctx, cmds...)
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
			n.log.Error("genesis command refused", "command", i, "error", r.Err)
		}
	}
	if n.raft.CurrentTerm() != term {
		return 0, fmt.Errorf("%w: term %d has ended", ErrNotLeader, term)
	}
	if newCluster {
		n.log.Info("cluster created", "cluster", n.fsm.View().Meta().GetClusterId())
	}
	return results[0].Index, nil
}

// genesis returns the commands that create a cluster.
func (n *Node) genesis() []*internalv1.Command {
	var cmds []*internalv1.Command
	for _, c := range n.cfg.Genesis {
		cmds = append(cmds, proto.CloneOf(c))
	}
	for _, s := range n.servers() {
		// A peer recorded before the first acknowledged write cannot have lost one.
		if m, ok := n.gossip.Peer(string(s.ID)); ok {
			cmds = append(cmds, putPeer(record(m)))
		}
	}
	id := n.ident.get().ClusterID
	if id == "" {
		id = uuid.NewString()
	}
	return append(cmds, &internalv1.Command{
		Op: &internalv1.Command_InitCluster{InitCluster: &internalv1.InitCluster{ClusterId: id}},
	})
}

// standDownOthers makes every other peer end the leader tasks of earlier terms. Peers that
// do not answer are skipped.
func (n *Node) standDownOthers(ctx context.Context, term uint64) {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.standDown)
	defer cancel()
	var wg sync.WaitGroup
	for _, s := range n.servers() {
		id := string(s.ID)
		if id == n.cfg.NodeID {
			continue
		}
		wg.Go(func() {
			c, err := n.conns.Peer(id)
			if err == nil {
				_, err = c.StandDown(ctx, &internalv1.StandDownRequest{Term: term})
			}
			if err != nil {
				n.log.Debug("stand-down request failed", "id", id, "error", err)
			}
		})
	}
	wg.Wait()
}

// transfer hands the leadership to the most up-to-date voter that answers.
func (n *Node) transfer(ctx context.Context) error {
	candidates := n.successors(ctx)
	if len(candidates) == 0 {
		return errors.New("no other voter answers")
	}
	n.handingOver.Store(true)
	defer n.handingOver.Store(false)
	var errs []error
	for _, s := range candidates {
		err := wait.For(ctx, n.raft.LeadershipTransferToServer(s.ID, s.Address))
		if err == nil || n.raft.State() != raft.Leader {
			n.log.Info("leadership handed over", "to", s.ID)
			return nil
		}
		errs = append(errs, fmt.Errorf("hand the leadership to %s: %w", s.ID, err))
	}
	return errors.Join(errs...)
}

// successors returns the other voters that answer, most up-to-date first.
func (n *Node) successors(ctx context.Context) []raft.Server {
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		last  = map[raft.ServerID]uint64{}
		found []raft.Server
	)
	for _, s := range n.servers() {
		if s.Suffrage != raft.Voter || string(s.ID) == n.cfg.NodeID {
			continue
		}
		wg.Go(func() {
			st, err := n.peerStats(ctx, string(s.ID))
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
