package members

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/cluster/internal/gossip"
	"github.com/holdfast-metal/holdfast/cluster/internal/wait"
	"github.com/holdfast-metal/holdfast/cluster/leader"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// promoteLag is how many entries a peer may be behind when it is promoted to a voter.
const promoteLag = 1024

// reconciler aligns Raft's configuration with gossip, on the leader.
type reconciler struct {
	*Members
	term        uint64
	floor       map[string]uint64    // nonvoter's instance → the index that it must have applied before it may vote
	admitted    map[string]bool      // instances that this term has allowed to vote
	refused     map[string]bool      // instances whose refusal has been logged
	stableSince map[string]time.Time // since when instances have been caught up
	dirty       bool                 // something will change without an event from gossip
	lastError   string               // the last logged error
}

// Run manages the membership in one term. It implements leader.Task.
func (ms *Members) Run(ctx context.Context, t leader.Term) error {
	r := &reconciler{
		Members: ms, term: t.Epoch,
		floor:       map[string]uint64{},
		admitted:    map[string]bool{},
		refused:     map[string]bool{},
		stableSince: map[string]time.Time{},
	}
	ms.seen.reset()
	for {
		changed := ms.gossip.Changed()
		r.dirty = false
		r.report(ctx, r.pass(ctx))
		every := ms.cfg.Scale(5 * time.Second)
		if r.dirty {
			every = ms.cfg.Scale(200 * time.Millisecond)
		}
		select {
		case <-time.After(every):
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// report logs the error of a pass, each distinct one once.
func (r *reconciler) report(ctx context.Context, err error) {
	if err == nil {
		r.lastError = ""
		return
	}
	r.dirty = true
	if ctx.Err() == nil && err.Error() != r.lastError {
		r.lastError = err.Error()
		r.cfg.Logger.Warn("membership not settled, will retry", "error", err)
	}
}

// pass handles every peer once. A failure with one peer does not delay the others.
func (r *reconciler) pass(ctx context.Context) error {
	var errs []error
	for _, m := range r.gossip.Peers() {
		if !m.Alive {
			r.departed.Delete(m.Meta.GetId())
			continue
		}
		if err := r.peer(ctx, m); err != nil {
			errs = append(errs, fmt.Errorf("peer %s: %w", m.Meta.GetId(), err))
		}
	}
	if err := r.finishRemovals(ctx); err != nil {
		errs = append(errs, err)
	}
	if err := r.forgetRemoved(ctx); err != nil {
		errs = append(errs, err)
	}
	if err := r.raiseLevel(ctx); err != nil {
		errs = append(errs, err)
	}
	if err := r.removeDead(ctx); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// finishRemovals removes peers whose certificates an operator has denied, but whose leader has
// failed before it has removed them.
func (r *reconciler) finishRemovals(ctx context.Context) error {
	var errs []error
	for _, a := range r.cfg.View().Admissions() {
		id := a.GetId()
		if !a.GetRemoving() || id == r.cfg.Self {
			continue
		}
		if srv, in := r.server(id); in {
			rest, following := r.followed(ctx, r.term, id)
			if srv.Suffrage == raft.Voter && following < rest/2+1 {
				errs = append(errs, fmt.Errorf("finish the removal of peer %s: of the other voters (%d) only %d answer", id, rest,
					following))
				continue
			}
			if err := r.change(ctx, r.raft.RemoveServer(raft.ServerID(id), 0, changeTimeout)); err != nil {
				errs = append(errs, fmt.Errorf("finish the removal of peer %s: %w", id, err))
				continue
			}
		}
		if err := r.forgetPeer(ctx, id); err != nil {
			errs = append(errs, fmt.Errorf("finish the removal of peer %s: %w", id, err))
			continue
		}
		r.cfg.Logger.Warn("removal of a peer finished", "peer", id)
	}
	return errors.Join(errs...)
}

// forgetRemoved removes the records of peers that are not in Raft's configuration. It
// finishes removals whose leader failed halfway.
func (r *reconciler) forgetRemoved(ctx context.Context) error {
	servers := r.cfg.Servers()
	if len(servers) == 0 {
		return nil // they cannot be read now
	}
	for _, p := range r.cfg.View().Peers() {
		if slices.ContainsFunc(servers, func(s raft.Server) bool { return string(s.ID) == p.GetId() }) {
			continue
		}
		if err := r.forgetPeer(ctx, p.GetId()); err != nil {
			return fmt.Errorf("delete the record of removed peer %s: %w", p.GetId(), err)
		}
		r.cfg.Logger.Info("record of removed peer deleted", "peer", p.GetId())
	}
	return nil
}

// peer performs the next step for one peer.
func (r *reconciler) peer(ctx context.Context, m gossip.Member) error {
	id := m.Meta.GetId()
	srv, in := r.server(id)
	if left, ok := r.departed.Load(id); ok && !in && left == processOf(m.Meta) {
		return nil // it has left and is about to stop
	}
	meta := r.cfg.View().Meta()
	if level := meta.GetFeatureLevel(); m.Meta.GetMaxFeatureLevel() < level {
		r.refuse(m, level)
		if !in {
			return nil
		}
	}
	if !in {
		if why := r.Waits(id); why != "" {
			r.refuseNew(m, why)
			return nil
		}
		if err := r.verifyIdentity(ctx, m); err != nil {
			return err
		}
		r.cfg.Logger.Info("peer joins", "peer", id, "raft", m.Meta.GetRaftAddr(), "instance", m.Meta.GetInstance())
		return r.change(ctx, r.raft.AddNonvoter(
			raft.ServerID(id),
			raft.ServerAddress(m.Meta.GetRaftAddr()),
			0,
			changeTimeout,
		))
	}
	rec, known := r.cfg.View().Peer(id)
	same := known && rec.GetInstance() == m.Meta.GetInstance()
	if !same || string(srv.Address) != m.Meta.GetRaftAddr() {
		if err := r.verifyIdentity(ctx, m); err != nil {
			return err // gossip alone changes nothing
		}
	}
	if id != r.cfg.Self && srv.Suffrage == raft.Voter && !same {
		return r.demote(ctx, m, rec)
	}
	if string(srv.Address) != m.Meta.GetRaftAddr() {
		r.cfg.Logger.Info("peer has moved", "peer", id, "from", srv.Address, "to", m.Meta.GetRaftAddr())
		if err := r.move(ctx, srv, raft.ServerAddress(m.Meta.GetRaftAddr())); err != nil {
			return err
		}
	}
	known = m.Meta.GetMaxFeatureLevel() >= meta.GetFeatureLevel()
	if known {
		if err := r.keepRecord(ctx, m); err != nil {
			return fmt.Errorf("record the peer: %w", err)
		}
		// failpoint: peer-recorded
	}
	if id == r.cfg.Self {
		return nil
	}
	if srv.Suffrage == raft.Voter {
		return r.allowVote(ctx, m)
	}
	return r.promote(ctx, m)
}

// verifyIdentity connects to a new or changed peer to check that it answers, its certificate, and
// that it is what gossip describes. Gossip does not prove an identity: any holder of its key can
// claim one. And for seconds it reports a dead peer as alive, which would be admitted again after
// its removal.
func (r *reconciler) verifyIdentity(ctx context.Context, m gossip.Member) error {
	id := m.Meta.GetId()
	if id == r.cfg.Self {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	st, cert, err := r.cfg.Stats(ctx, id)
	if err != nil {
		return fmt.Errorf("verify that it answers with its certificate: %w", err)
	}
	if got := st.GetInstance(); got != m.Meta.GetInstance() {
		return fmt.Errorf("verify that it is what gossip describes: it is instance %s, gossip says %s",
			got, m.Meta.GetInstance())
	}
	if err := r.cfg.Denied(id, cert); err != nil {
		r.refuseNew(m, err.Error())
		return err
	}
	return nil
}

// refuseNew logs once why a peer is not added.
func (r *reconciler) refuseNew(m gossip.Member, why string) {
	if r.refused[m.Meta.GetInstance()] {
		return
	}
	r.refused[m.Meta.GetInstance()] = true
	r.cfg.Logger.Warn("peer not added", "peer", m.Meta.GetId(), "raft", m.Meta.GetRaftAddr(), "reason", why)
}

// refuse logs once that a peer's version is too old.
func (r *reconciler) refuse(m gossip.Member, level uint32) {
	if r.refused[m.Meta.GetInstance()] {
		return
	}
	r.refused[m.Meta.GetInstance()] = true
	r.cfg.Logger.Error("peer refused: its version is too old for this cluster; upgrade it", "peer", m.Meta.GetId(),
		"version", m.Meta.GetVersion(), "understands_level", m.Meta.GetMaxFeatureLevel(), "cluster_level", level)
}

func (r *reconciler) move(ctx context.Context, srv raft.Server, to raft.ServerAddress) error {
	if srv.Suffrage == raft.Voter {
		return r.change(ctx, r.raft.AddVoter(srv.ID, to, 0, changeTimeout))
	}
	return r.change(ctx, r.raft.AddNonvoter(srv.ID, to, 0, changeTimeout))
}

// demote removes the vote of a peer that has returned without its data or has no record,
// because its acknowledgements no longer count. The peer keeps its vote as long as the
// others are no majority without it.
func (r *reconciler) demote(ctx context.Context, m gossip.Member, rec *internalv1.PeerRecord) error {
	id := m.Meta.GetId()
	voters, following := r.followed(ctx, r.term, id)
	if following < voters/2+1 {
		return fmt.Errorf("it has lost its data, but of the other voters (%d) only %d answer: "+
			"waiting for them before removing its vote",
			voters, following)
	}
	r.cfg.Logger.Warn("peer has lost its data, demoting it until it has caught up", "peer", id,
		"instance", m.Meta.GetInstance(), "recorded", rec.GetInstance())
	r.dirty = true
	err := r.change(ctx, r.raft.DemoteVoter(raft.ServerID(id), 0, changeTimeout))
	// failpoint: peer-demoted
	return err
}

// change waits for a configuration change. More work may follow it.
func (r *reconciler) change(ctx context.Context, f raft.Future) error {
	r.dirty = true
	ctx, cancel := context.WithTimeout(ctx, 2*changeTimeout)
	defer cancel()
	if err := wait.For(ctx, f); err != nil {
		return fmt.Errorf("change the raft configuration: %w", err)
	}
	r.gossip.Notify()
	return nil
}
