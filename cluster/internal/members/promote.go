package members

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/cluster/internal/gossip"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// promote makes a nonvoter a voter once it holds everything that was committed when this
// leader first saw it.
func (r *reconciler) promote(ctx context.Context, m gossip.Member) error {
	id, instance := m.Meta.GetId(), m.Meta.GetInstance()
	r.dirty = true
	commit := r.cfg.CommitIndex()
	if _, ok := r.floor[instance]; !ok {
		r.floor[instance] = commit
	}
	st, _, err := r.cfg.Stats(ctx, id)
	if err != nil {
		return fmt.Errorf("get its applied index: %w", err)
	}
	if st.GetInstance() != instance {
		return nil // gossip is behind
	}
	if at := st.GetAppliedIndex(); !mayVote(at, r.floor[instance], commit) {
		r.cfg.Logger.Debug("peer is catching up", "peer", id, "applied", at, "commit", commit)
		delete(r.stableSince, instance)
		return nil
	}
	if !r.stable(instance) {
		return nil
	}
	if err := r.allowVote(ctx, m); err != nil {
		return err
	}
	// failpoint: peer-admitted
	r.cfg.Logger.Info("peer has caught up, promoting it to a voter", "peer", id)
	at := raft.ServerAddress(m.Meta.GetRaftAddr())
	err = r.change(ctx, r.raft.AddVoter(raft.ServerID(id), at, 0, changeTimeout))
	// failpoint: peer-promoted
	return err
}

// mayVote reports whether a peer that has applied an index may vote. It must hold
// everything that may have relied on its acknowledgements, and it must not be so far behind
// that it would slow the others down.
func mayVote(applied, floor, commit uint64) bool {
	return applied >= floor && applied+promoteLag >= commit
}

// allowVote sends a peer the permission to vote. A peer that already has it ignores the
// call.
func (r *reconciler) allowVote(ctx context.Context, m gossip.Member) error {
	if r.admitted[m.Meta.GetInstance()] {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	err := r.cfg.Admit(ctx, m.Meta.GetId(), &internalv1.AdmitRequest{
		Instance:  m.Meta.GetInstance(),
		ClusterId: r.cfg.View().Meta().GetClusterId(),
		Index:     r.cfg.CommitIndex(),
	})
	if err != nil {
		return fmt.Errorf("allow it to vote: %w", err)
	}
	r.admitted[m.Meta.GetInstance()] = true
	return nil
}

// raiseLevel raises the feature level to the highest one that every server understands.
func (r *reconciler) raiseLevel(ctx context.Context) error {
	v := r.cfg.View()
	level := commonLevel(r.cfg.Level, r.cfg.Servers(), v.Peer)
	if level <= v.Meta().GetFeatureLevel() {
		return nil
	}
	err := r.cfg.Commit(ctx, &internalv1.Command{
		Op: &internalv1.Command_RaiseFeatureLevel{
			RaiseFeatureLevel: &internalv1.RaiseFeatureLevel{Level: level},
		},
	})
	if err != nil {
		return fmt.Errorf("raise feature level to %d: %w", level, err)
	}
	r.cfg.Logger.Info("feature level raised", "level", level)
	return nil
}

// commonLevel returns the highest level that this peer and all servers understand. It
// returns 0 if a server has no record.
func commonLevel(own uint32, servers []raft.Server, peer func(string) (*internalv1.PeerRecord, bool)) uint32 {
	for _, s := range servers {
		rec, ok := peer(string(s.ID))
		if !ok {
			return 0
		}
		own = min(own, rec.GetMaxFeatureLevel())
	}
	return own
}
