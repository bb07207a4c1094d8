package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/cluster/internal/gossip"
	"github.com/holdfast-metal/holdfast/cluster/internal/wait"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

const (
	// promoteLag is how many entries a peer may be behind when it is promoted to a voter.
	promoteLag = 1024
	// changeTimeout bounds one change of the membership.
	changeTimeout = 5 * time.Second
)

// reconciler aligns Raft's configuration with gossip, on the leader.
type reconciler struct {
	n           *Node
	term        uint64
	floor       map[string]uint64    // nonvoter's instance → the index that it must have applied before it may vote
	admitted    map[string]bool      // instances that this term has allowed to vote
	refused     map[string]bool      // instances whose refusal has been logged
	stableSince map[string]time.Time // since when instances have been caught up
	dirty       bool                 // something will change without an event from gossip
	lastError   string               // the last logged error
}

// reconcileMembers manages the membership in one term.
func (ms *membership) reconcileMembers(ctx context.Context, term uint64) error {
	r := &reconciler{
		n: ms.n, term: term,
		floor:       map[string]uint64{},
		admitted:    map[string]bool{},
		refused:     map[string]bool{},
		stableSince: map[string]time.Time{},
	}
	ms.seen.reset()
	for {
		changed := ms.n.gossip.Changed()
		r.dirty = false
		r.report(ctx, r.pass(ctx))
		every := ms.n.cfg.scale(5 * time.Second)
		if r.dirty {
			every = ms.n.cfg.scale(200 * time.Millisecond)
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
		r.n.log.Warn("membership not settled, will retry", "error", err)
	}
}

// pass handles every peer once. A failure with one peer does not delay the others.
func (r *reconciler) pass(ctx context.Context) error {
	var errs []error
	for _, m := range r.n.gossip.Peers() {
		if !m.Alive {
			r.n.membership.departed.Delete(m.Meta.GetId())
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
	for _, a := range r.n.fsm.View().Admissions() {
		id := a.GetId()
		if !a.GetRemoving() || id == r.n.cfg.NodeID {
			continue
		}
		if srv, in := r.n.server(id); in {
			rest, following := r.n.membership.followed(ctx, r.term, id)
			if srv.Suffrage == raft.Voter && following < rest/2+1 {
				errs = append(errs, fmt.Errorf("finish the removal of peer %s: of the other voters (%d) only %d answer", id, rest,
					following))
				continue
			}
			if err := r.change(ctx, r.n.raft.RemoveServer(raft.ServerID(id), 0, changeTimeout)); err != nil {
				errs = append(errs, fmt.Errorf("finish the removal of peer %s: %w", id, err))
				continue
			}
		}
		if err := r.n.membership.forgetPeer(ctx, id); err != nil {
			errs = append(errs, fmt.Errorf("finish the removal of peer %s: %w", id, err))
			continue
		}
		r.n.log.Warn("removal of a peer finished", "id", id)
	}
	return errors.Join(errs...)
}

// forgetRemoved removes the records of peers that are not in Raft's configuration. It
// finishes removals whose leader failed halfway.
func (r *reconciler) forgetRemoved(ctx context.Context) error {
	servers := r.n.servers()
	if len(servers) == 0 {
		return nil // they cannot be read now
	}
	for _, p := range r.n.fsm.View().Peers() {
		if slices.ContainsFunc(servers, func(s raft.Server) bool { return string(s.ID) == p.GetId() }) {
			continue
		}
		if err := r.n.membership.forgetPeer(ctx, p.GetId()); err != nil {
			return fmt.Errorf("delete the record of removed peer %s: %w", p.GetId(), err)
		}
		r.n.log.Info("record of removed peer deleted", "id", p.GetId())
	}
	return nil
}

// peer performs the next step for one peer.
func (r *reconciler) peer(ctx context.Context, m gossip.Member) error {
	id := m.Meta.GetId()
	srv, in := r.n.server(id)
	if left, ok := r.n.membership.departed.Load(id); ok && !in && left == processOf(m.Meta) {
		return nil // it has left and is about to stop
	}
	meta := r.n.fsm.View().Meta()
	if level := meta.GetFeatureLevel(); m.Meta.GetMaxFeatureLevel() < level {
		r.refuse(m, level)
		if !in {
			return nil
		}
	}
	if !in {
		if why := r.n.membership.waits(id); why != "" {
			r.refuseNew(m, why)
			return nil
		}
		if err := r.verifyIdentity(ctx, m); err != nil {
			return err
		}
		r.n.log.Info("peer joins", "id", id, "raft", m.Meta.GetRaftAddr(), "instance", m.Meta.GetInstance())
		return r.change(ctx, r.n.raft.AddNonvoter(
			raft.ServerID(id),
			raft.ServerAddress(m.Meta.GetRaftAddr()),
			0,
			changeTimeout,
		))
	}
	rec, known := r.n.fsm.View().Peer(id)
	same := known && rec.GetInstance() == m.Meta.GetInstance()
	if !same || string(srv.Address) != m.Meta.GetRaftAddr() {
		if err := r.verifyIdentity(ctx, m); err != nil {
			return err // gossip alone changes nothing
		}
	}
	if id != r.n.cfg.NodeID && srv.Suffrage == raft.Voter && !same {
		return r.demote(ctx, m, rec)
	}
	if string(srv.Address) != m.Meta.GetRaftAddr() {
		r.n.log.Info("peer has moved", "id", id, "from", srv.Address, "to", m.Meta.GetRaftAddr())
		if err := r.move(ctx, srv, raft.ServerAddress(m.Meta.GetRaftAddr())); err != nil {
			return err
		}
	}
	known = m.Meta.GetMaxFeatureLevel() >= meta.GetFeatureLevel()
	if known {
		if err := r.n.membership.keepRecord(ctx, m); err != nil {
			return fmt.Errorf("record the peer: %w", err)
		}
		// failpoint: peer-recorded
	}
	if id == r.n.cfg.NodeID {
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
	if id == r.n.cfg.NodeID {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	st, cert, err := r.n.reporter.peerStatsCert(ctx, id)
	if err != nil {
		return fmt.Errorf("verify that it answers with its certificate: %w", err)
	}
	if got := st.GetInstance(); got != m.Meta.GetInstance() {
		return fmt.Errorf("verify that it is what gossip describes: it is instance %s, gossip says %s",
			got, m.Meta.GetInstance())
	}
	if err := r.n.roster.Denied(id, cert); err != nil {
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
	r.n.log.Warn("peer not added", "id", m.Meta.GetId(), "raft", m.Meta.GetRaftAddr(), "reason", why)
}

// waits returns why a peer that is not in the configuration must wait for an admin, or "".
func (ms *membership) waits(id string) string {
	if _, ok := ms.n.fsm.View().Admission(id); ok {
		return "" // decided: see roster.denied
	}
	manual := ms.n.cfg.AdmitManually
	for _, m := range ms.n.gossip.Peers() {
		if _, in := ms.n.server(m.Meta.GetId()); in {
			manual = manual || m.Meta.GetAdmitManually()
		}
	}
	if !manual {
		return ""
	}
	return "new peers join only after an admin has admitted them (admit_peers: manual)"
}

// refuse logs once that a peer's version is too old.
func (r *reconciler) refuse(m gossip.Member, level uint32) {
	if r.refused[m.Meta.GetInstance()] {
		return
	}
	r.refused[m.Meta.GetInstance()] = true
	r.n.log.Error("peer refused: its version is too old for this cluster; upgrade it", "id", m.Meta.GetId(),
		"version", m.Meta.GetVersion(), "understands_level", m.Meta.GetMaxFeatureLevel(), "cluster_level", level)
}

func (r *reconciler) move(ctx context.Context, srv raft.Server, to raft.ServerAddress) error {
	if srv.Suffrage == raft.Voter {
		return r.change(ctx, r.n.raft.AddVoter(srv.ID, to, 0, changeTimeout))
	}
	return r.change(ctx, r.n.raft.AddNonvoter(srv.ID, to, 0, changeTimeout))
}

// demote removes the vote of a peer that has returned without its data or has no record,
// because its acknowledgements no longer count. The peer keeps its vote as long as the
// others are no majority without it.
func (r *reconciler) demote(ctx context.Context, m gossip.Member, rec *internalv1.PeerRecord) error {
	id := m.Meta.GetId()
	voters, following := r.n.membership.followed(ctx, r.term, id)
	if following < voters/2+1 {
		return fmt.Errorf("it has lost its data, but of the other voters (%d) only %d answer: "+
			"waiting for them before removing its vote",
			voters, following)
	}
	r.n.log.Warn("peer has lost its data, demoting it until it has caught up", "id", id,
		"instance", m.Meta.GetInstance(), "recorded", rec.GetInstance())
	r.dirty = true
	err := r.change(ctx, r.n.raft.DemoteVoter(raft.ServerID(id), 0, changeTimeout))
	// failpoint: peer-demoted
	return err
}

// promote makes a nonvoter a voter once it holds everything that was committed when this
// leader first saw it.
func (r *reconciler) promote(ctx context.Context, m gossip.Member) error {
	id, instance := m.Meta.GetId(), m.Meta.GetInstance()
	r.dirty = true
	commit := r.n.raft.CommitIndex()
	if _, ok := r.floor[instance]; !ok {
		r.floor[instance] = commit
	}
	st, err := r.n.reporter.peerStats(ctx, id)
	if err != nil {
		return fmt.Errorf("get its applied index: %w", err)
	}
	if st.GetInstance() != instance {
		return nil // gossip is behind
	}
	if at := st.GetAppliedIndex(); !mayVote(at, r.floor[instance], commit) {
		r.n.log.Debug("peer is catching up", "id", id, "applied", at, "commit", commit)
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
	r.n.log.Info("peer has caught up, promoting it to a voter", "id", id)
	at := raft.ServerAddress(m.Meta.GetRaftAddr())
	err = r.change(ctx, r.n.raft.AddVoter(raft.ServerID(id), at, 0, changeTimeout))
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
	c, err := r.n.conns.Peer(m.Meta.GetId())
	if err == nil {
		_, err = c.Admit(ctx, &internalv1.AdmitRequest{
			Instance:  m.Meta.GetInstance(),
			ClusterId: r.n.fsm.View().Meta().GetClusterId(),
			Index:     r.n.raft.CommitIndex(),
		})
	}
	if err != nil {
		return fmt.Errorf("allow it to vote: %w", err)
	}
	r.admitted[m.Meta.GetInstance()] = true
	return nil
}

// raiseLevel raises the feature level to the highest one that every server understands.
func (r *reconciler) raiseLevel(ctx context.Context) error {
	v := r.n.fsm.View()
	level := commonLevel(r.n.cfg.level(), r.n.servers(), v.Peer)
	if level <= v.Meta().GetFeatureLevel() {
		return nil
	}
	err := r.n.committer.commit(ctx, &internalv1.Command{
		Op: &internalv1.Command_RaiseFeatureLevel{
			RaiseFeatureLevel: &internalv1.RaiseFeatureLevel{Level: level},
		},
	})
	if err != nil {
		return fmt.Errorf("raise feature level to %d: %w", level, err)
	}
	r.n.log.Info("feature level raised", "level", level)
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

// change waits for a configuration change. More work may follow it.
func (r *reconciler) change(ctx context.Context, f raft.Future) error {
	r.dirty = true
	ctx, cancel := context.WithTimeout(ctx, 2*changeTimeout)
	defer cancel()
	if err := wait.For(ctx, f); err != nil {
		return fmt.Errorf("change the raft configuration: %w", err)
	}
	r.n.gossip.Notify()
	return nil
}

// keepRecord commits the record of a peer if it has changed.
func (ms *membership) keepRecord(ctx context.Context, m gossip.Member) error {
	ms.certs.Lock()
	defer ms.certs.Unlock()
	rec, _ := ms.n.fsm.View().Peer(m.Meta.GetId())
	want := ms.record(m, rec)
	if proto.Equal(rec, want) {
		return nil
	}
	return ms.n.committer.commit(ctx, putPeer(want))
}

// record returns the state's record of a peer, which replaces an earlier one.
func (ms *membership) record(m gossip.Member, had *internalv1.PeerRecord) *internalv1.PeerRecord {
	serials := had.GetSerials()
	if s, ok := ms.serials.Load(m.Meta.GetId()); ok && !slices.Contains(serials, s.(string)) {
		serials = append(slices.Clone(serials), s.(string))
	}
	return &internalv1.PeerRecord{
		Serials: serials[max(0, len(serials)-keptSerials):],
		Id:      m.Meta.GetId(), Instance: m.Meta.GetInstance(),
		RaftAddr: m.Meta.GetRaftAddr(), GrpcAddr: m.Meta.GetGrpcAddr(),
		HttpAddr: m.Meta.GetHttpAddr(), GossipAddr: m.Addr,
		MaxFeatureLevel: m.Meta.GetMaxFeatureLevel(), Version: m.Meta.GetVersion(),
	}
}

func putPeer(p *internalv1.PeerRecord) *internalv1.Command {
	return &internalv1.Command{Op: &internalv1.Command_PutPeer{PutPeer: &internalv1.PutPeer{Peer: p}}}
}
