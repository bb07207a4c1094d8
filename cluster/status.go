package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/cluster/internal/joinwatch"
	"github.com/holdfast-metal/holdfast/cluster/internal/transport"
	"github.com/holdfast-metal/holdfast/cluster/outcome"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// statusTimeout bounds a request for the status of one peer.
const statusTimeout = 500 * time.Millisecond

// reporter reports what this peer knows of itself and of the others. It asks every part, and no
// part knows it.
type reporter struct{ n *Peer }

// Status returns the state of the cluster as this peer sees it. It needs no quorum. Peers
// that do not answer within half a second are listed with the reason.
func (n *Peer) Status(ctx context.Context) *holdfastv1.ClusterStatus {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	leader, _, _ := n.Leader()
	meta := n.fsm.View().Meta()
	st := &holdfastv1.ClusterStatus{
		ClusterId: meta.GetClusterId(), Leader: leader, Term: n.raft.CurrentTerm(),
		FeatureLevel: meta.GetFeatureLevel(), AnsweredBy: n.cfg.PeerID,
		Peers: n.report.knownPeers(leader), LastBackupAt: meta.GetLastBackup(),
	}
	if err := n.report.problem(); err != nil {
		st.Problem = err.Error()
	}
	var wg sync.WaitGroup
	for _, p := range st.GetPeers() {
		wg.Go(func() { n.report.ask(ctx, p) })
	}
	wg.Wait()
	committed, voters, answering := n.raft.CommitIndex(), 0, 0
	for _, p := range st.GetPeers() {
		answers := p.GetError() == "" // gossip needs seconds to detect a dead peer
		if answers && committed > p.GetAppliedIndex() {
			p.Behind = committed - p.GetAppliedIndex()
		}
		if p.GetSuffrage() == "voter" {
			voters++
			if answers && p.GetAlive() && p.GetMayVote() && p.GetLastContactMs() >= 0 {
				answering++ // one that has not heard of the leader yet cannot replace a voter
			}
		}
	}
	for _, p := range st.GetPeers() {
		n.report.advise(p, leader != "")
	}
	st.FailureTolerance = int32(max(0, answering-(voters/2+1)))
	return st
}

// knownPeers lists the peers of the Raft configuration and of gossip, by id.
func (rp reporter) knownPeers(leader string) []*holdfastv1.Peer {
	peers := map[string]*holdfastv1.Peer{}
	for _, s := range rp.n.raft.servers() {
		p := &holdfastv1.Peer{Id: string(s.ID), Suffrage: "nonvoter", RaftAddr: string(s.Address)}
		if s.Suffrage == raft.Voter {
			p.Suffrage = "voter"
		}
		if rec, ok := rp.n.fsm.View().Peer(p.GetId()); ok {
			p.GrpcAddr, p.HttpAddr, p.GossipAddr = rec.GetGrpcAddr(), rec.GetHttpAddr(), rec.GetGossipAddr()
			p.Version, p.MaxFeatureLevel = rec.GetVersion(), rec.GetMaxFeatureLevel()
		}
		peers[p.GetId()] = p
	}
	for _, m := range rp.n.gossip.Peers() {
		p, ok := peers[m.Meta.GetId()]
		if !ok {
			if !m.Alive {
				continue // it has left
			}
			p = &holdfastv1.Peer{Id: m.Meta.GetId(), Suffrage: "none"}
			peers[p.GetId()] = p
		}
		p.Alive = m.Alive
		if !m.Alive {
			p.AwaySince = timestamppb.New(m.Since)
		}
		p.RaftAddr, p.GrpcAddr = m.Meta.GetRaftAddr(), m.Meta.GetGrpcAddr()
		p.HttpAddr, p.GossipAddr = m.Meta.GetHttpAddr(), m.Addr
		p.Version, p.MaxFeatureLevel = m.Meta.GetVersion(), m.Meta.GetMaxFeatureLevel()
	}
	list := make([]*holdfastv1.Peer, 0, len(peers))
	for _, p := range peers {
		p.Leader = p.GetId() == leader
		p.LastContactMs = -1
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b *holdfastv1.Peer) int { return cmp.Compare(a.GetId(), b.GetId()) })
	return list
}

// ask fills in the statistics that the peer itself reports.
func (rp reporter) ask(ctx context.Context, p *holdfastv1.Peer) {
	st, err := rp.n.ask.stats(ctx, p.GetId())
	if err != nil {
		p.Error = joinwatch.Call(err)
		p.Alive = p.GetAlive() && !joinwatch.Refused(err) // gossip needs seconds to detect a dead peer
		if m, ok := rp.n.gossip.Peer(p.GetId()); ok && m.Meta.GetFailure() != "" {
			p.Error = "has stopped: " + m.Meta.GetFailure()
		}
		return
	}
	if why := rp.n.failure(); why != nil && p.GetId() == rp.n.cfg.PeerID {
		p.Error = "is stopping: " + why.Error()
	}
	p.MayVote = st.GetMayVote()
	p.Term, p.Load, p.Warning = st.GetTerm(), st.GetLoad(), st.GetWarning()
	p.CertificateNotAfter, p.CertificateRenewed = st.GetCertificateNotAfter(), st.GetCertificateRenewed()
	p.AppliedIndex, p.LastIndex, p.LastContactMs = st.GetAppliedIndex(), st.GetLastIndex(), st.GetLastContactMs()
}

// advise fills in since when a peer is away, why it is no member, and what to do. Without a leader
// no peer can be removed.
func (rp reporter) advise(p *holdfastv1.Peer, led bool) {
	id := p.GetId()
	if p.GetSuffrage() == "none" {
		if a, ok := rp.n.fsm.View().Admission(id); ok && a.GetDenied() {
			p.Waits = "removed at " + a.GetAt().AsTime().UTC().Format(time.RFC3339) +
				": it joins with a new certificate, or when admitted"
		} else {
			p.Waits = rp.n.members.Waits(id)
		}
		if p.GetWaits() != "" {
			p.Next = "holdfast peer admit " + id
		}
		return
	}
	if p.GetError() == "" {
		p.AwaySince = nil // it answers, although gossip has not noticed yet
		return
	}
	if since, ok := rp.n.members.AwaySince(id); ok {
		if at := p.GetAwaySince(); at == nil || since.Before(at.AsTime()) {
			p.AwaySince = timestamppb.New(since)
		}
	}
	p.Next = "start it, or read its log; if it is lost: holdfast operator raft remove-peer " + id
	if !led {
		p.Next = "start it, or read its log; if most of the voters are lost: see holdfast operator recover --help"
	}
}

// load returns the work that this peer has done since it started.
func (rp reporter) load() *holdfastv1.PeerLoad {
	l := &holdfastv1.PeerLoad{
		Commands:      rp.n.metrics.commands.Load(),
		CommitSeconds: time.Duration(rp.n.metrics.commitNanos.Load()).Seconds(),
	}
	for i := range rp.n.metrics.commits {
		l.Commits = append(l.Commits, rp.n.metrics.commits[i].Load())
	}
	w := rp.n.work.Load()
	if w == nil {
		return l // it does not run yet
	}
	if w.Leases != nil {
		live, rate := w.Leases()
		l.Leases, l.LeaseRate = uint64(max(live, 0)), rate
	}
	if w.BMCCalls != nil {
		l.Bmc = w.BMCCalls()
	}
	return l
}

// LeaderLoad returns the leader's id and its load, which it must report within half a
// second. It returns outcome.ErrNoLeader if no leader is known.
func (n *Peer) LeaderLoad(ctx context.Context) (leader string, load *holdfastv1.PeerLoad, err error) {
	leader, self, ok := n.Leader()
	switch {
	case !ok:
		return "", nil, outcome.ErrNoLeader
	case self:
		return leader, n.report.load(), nil
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	st, err := n.ask.stats(ctx, leader)
	if err != nil {
		return "", nil, fmt.Errorf("get the load of leader %s: %w", leader, err)
	}
	return leader, st.GetLoad(), nil
}

func (rp reporter) stats() *internalv1.StatsResponse {
	st := &internalv1.StatsResponse{
		PeerId: rp.n.cfg.PeerID, Instance: rp.n.ident.Get().Instance,
		AppliedIndex: rp.n.fsm.Applied(), LastIndex: rp.n.raft.LastIndex(), Term: rp.n.raft.CurrentTerm(),
		LastContactMs: rp.lastContact(), State: rp.n.raft.State().String(), Version: rp.n.cfg.Version,
		MayVote: new(rp.n.gate.Admitted() && rp.n.caughtUp() == nil), Load: rp.load(),
		ClockMs: time.Now().UnixMilli(),
	}
	if s := rp.n.cfg.TLS; s != nil {
		st.CertificateNotAfter, st.CertificateRenewed = timestamppb.New(s.Leaf().NotAfter), s.Renews()
	}
	if err := rp.n.stores.Warning(); err != nil {
		st.Warning = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	if why := rp.unfit(); why != "" {
		st.Warning = strings.TrimPrefix(st.GetWarning()+"; "+why, "; ")
	}
	if w := rp.n.clocks.Warning(); w != "" {
		st.Warning = strings.TrimPrefix(st.GetWarning()+"; "+w, "; ")
	}
	return st
}

// lastContact returns the milliseconds since the last contact with the leader. It is 0 on
// the leader and -1 if there was none.
func (rp reporter) lastContact() int64 {
	if rp.n.raft.State() == raft.Leader {
		return 0
	}
	last := rp.n.raft.LastContact()
	if last.IsZero() {
		return -1
	}
	return time.Since(last).Milliseconds()
}

var errNoVoter = errors.New("peer is not a voter: the leader has not promoted it yet")

// maxBehind is how many entries a restarted peer may still have to apply and count as
// ready. Applying that many takes some tens of milliseconds.
const maxBehind = 256

// Readiness returns nil if this peer can serve and the cluster can rely on it, or an error with the
// reason: it is stopping, it knows no leader, or it does not vote (see Votes).
func (n *Peer) Readiness() error {
	if err := n.report.problem(); err != nil {
		return err
	}
	return n.Votes()
}

// Votes returns nil if the cluster can rely on this peer after losing another one, or an
// error with the reason. A peer that is new or lost its data has no vote until it has
// caught up. A peer that has just started still applies its log, and if it were elected
// then, all calls would wait for that.
func (n *Peer) Votes() error {
	if !n.gate.Admitted() {
		if why := n.report.unfit(); why != "" {
			return errors.New("peer may not vote yet: " + why)
		}
		return transport.ErrNotAdmitted
	}
	if _, self := n.raft.voters(); !self {
		return errNoVoter
	}
	return n.caughtUp()
}

// caughtUp returns an error if this peer has just started and still applies its log.
func (n *Peer) caughtUp() error {
	if n.applied.Load() {
		return nil
	}
	committed, applied := n.raft.CommitIndex(), n.fsm.Applied()
	if committed == 0 || committed > applied+maxBehind {
		return fmt.Errorf("peer has just started: %d of %d log entries applied",
			applied, max(committed, n.raft.LastIndex()))
	}
	n.applied.Store(true) // a peer that was there once only has to keep up
	return nil
}

// problem returns the reason why this peer cannot serve: it is stopping, or it knows no leader.
func (rp reporter) problem() error {
	if rp.n.failure() != nil {
		return rp.n.stopping()
	}
	if _, _, ok := rp.n.Leader(); !ok {
		return fmt.Errorf("%w: %s", outcome.ErrNoLeader, rp.n.joins.Reason())
	}
	return nil
}

// why returns the reason why no leader could be asked. leader is the one that this peer knows.
func (rp reporter) why(leader string) string {
	switch {
	case rp.n.failure() != nil:
		return rp.n.stopping().Error()
	case leader == "":
		return rp.n.joins.Reason()
	case leader == rp.n.cfg.PeerID:
		return "this peer is taking over the leadership"
	}
	return fmt.Sprintf("leader %s is unreachable", leader)
}

// unfit returns why this data directory may not vote although it has data, or "".
func (rp reporter) unfit() string {
	if r := rp.n.ident.Get(); r.Stale != "" {
		return "its data directory is older than what it had acknowledged, or may be, so it votes again once it has caught " +
			"up: " + r.Stale
	}
	return rp.n.marks.Why()
}

// standing answers the questions of package joinwatch.
type standing struct{ n *Peer }

// Standing implements joinwatch.Cluster.
func (s standing) Standing() joinwatch.Standing {
	n := s.n
	_, _, leader := n.Leader()
	st := joinwatch.Standing{Self: n.cfg.PeerID, Leader: leader}
	others, self := n.raft.voters()
	if st.Voters = others; self {
		st.Voters = append(st.Voters, n.cfg.PeerID)
	}
	for _, m := range n.gossip.Peers() {
		if m.Alive {
			st.Seen = append(st.Seen, m.Meta.GetId())
		}
	}
	if t := n.leaderless.Load(); t != nil {
		st.For = time.Since(*t)
	}
	st.Unfit = n.report.unfit()
	st.Forming = n.founding.Why(st.Seen)
	return st
}

// Ask implements joinwatch.Cluster.
func (s standing) Ask(ctx context.Context, id string) error {
	st, err := s.n.ask.stats(ctx, id)
	switch {
	case err != nil:
		return err
	case st.GetPeerId() != id:
		return errors.New("another peer answers at its address: " + st.GetPeerId())
	case st.GetState() == raft.Leader.String():
		return joinwatch.ErrLeads
	}
	return nil
}

// FailedJoins implements joinwatch.Cluster.
func (s standing) FailedJoins() map[string]error { return s.n.gossip.FailedJoins() }
