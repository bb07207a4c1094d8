package cluster

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/cluster/internal/roster"
	"github.com/holdfast-metal/holdfast/cluster/internal/wait"
	"github.com/holdfast-metal/holdfast/cluster/outcome"
	"github.com/holdfast-metal/holdfast/cluster/peertls"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// membership is what this peer, as the leader, knows of the other peers beyond Raft's
// configuration. It removes peers.
type membership struct {
	n *Node

	// departed maps the ids of peers that have left to their processes, so that the leader does
	// not add a peer again that is still in gossip. A process that starts again is another one.
	// Each leader has its own list in memory. A peer that was removed by force and not stopped
	// joins again under the next leader, as a nonvoter that catches up first.
	departed sync.Map
	serials  sync.Map // id → the serial of the certificate that this peer saw last
	// certs is held while a record of a peer's certificates is read and committed: a certificate
	// that is made while its peer is removed must be denied too.
	certs sync.Mutex
	seen  conditions // the peers' conditions, as this leader observed them
}

// process identifies one process of a peer.
type process struct {
	instance string
	start    int64
}

func processOf(m *internalv1.GossipMeta) process { return process{m.GetInstance(), m.GetStart()} }

// servers returns the latest Raft configuration.
func (n *Node) servers() []raft.Server {
	f := n.raft.GetConfiguration()
	if f.Error() != nil {
		return nil
	}
	return f.Configuration().Servers
}

func (n *Node) server(id string) (raft.Server, bool) {
	for _, s := range n.servers() {
		if string(s.ID) == id {
			return s, true
		}
	}
	return raft.Server{}, false
}

// voters returns the other voters of the latest configuration, and whether this peer is one.
func (n *Node) voters() (others []string, self bool) {
	for _, s := range n.servers() {
		switch {
		case s.Suffrage != raft.Voter:
		case string(s.ID) == n.cfg.NodeID:
			self = true
		default:
			others = append(others, string(s.ID))
		}
	}
	return others, self
}

// RemovePeer removes a lost peer from the cluster. With force the peer may be alive. It
// works only on the leader.
func (n *Node) RemovePeer(ctx context.Context, id string, force bool) error {
	r, ok := n.terms.current()
	if !ok {
		return n.refusal(n.terms.notReady())
	}
	srv, in := n.server(id)
	no := func(reason, format string, args ...any) error {
		return &fsm.Error{Code: fsm.FailedPrecondition, Reason: reason, Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case !in && !force:
		return &fsm.Error{
			Code: fsm.NotFound, Reason: "PEER_NOT_FOUND",
			Message: fmt.Sprintf("peer %q is not in the Raft configuration: see holdfast operator raft list-peers; "+
				"--force denies its certificates nevertheless", id),
		}
	case !in:
		return n.membership.deny(ctx, id, false)
	case id == n.cfg.NodeID:
		return no("PEER_LEADS", "peer %q leads: "+
			"hand the leadership over first (holdfast operator raft transfer-leadership)", id)
	}
	answers := n.membership.answers(ctx, id)
	if answers && !force {
		return no("PEER_ALIVE", "peer %q answers: "+
			"stop it first, or use --force (to make a peer leave, stop it with leave_on_stop)", id)
	}
	if srv.Suffrage == raft.Voter {
		rest, following := n.membership.followed(ctx, r.term, id)
		if following < rest/2+1 {
			return no("NO_QUORUM", "removing peer %q leaves a cluster of %d voters, of which %d answer: not a majority",
				id, rest, following)
		}
	}
	if err := n.membership.remove(ctx, id, answers, true); err != nil {
		return n.refusal(err)
	}
	n.log.Warn("peer removed by an operator, and its certificates denied", "id", id)
	return nil
}

// followed counts the voters except one, and how many of them lead or follow in the term.
// It asks them, because gossip is slow to detect a dead peer.
func (ms *membership) followed(ctx context.Context, term uint64, but string) (voters, following int) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	var wg sync.WaitGroup
	var n atomic.Int64
	for _, s := range ms.n.servers() {
		if s.Suffrage != raft.Voter || string(s.ID) == but {
			continue
		}
		voters++
		wg.Go(func() {
			if st, err := ms.n.reporter.peerStats(ctx, string(s.ID)); err == nil && st.GetTerm() == term {
				n.Add(1)
			}
		})
	}
	wg.Wait()
	return voters, int(n.Load())
}

// answers reports whether a peer answers a request for its statistics.
func (ms *membership) answers(ctx context.Context, id string) bool {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	_, err := ms.n.reporter.peerStats(ctx, id)
	return err == nil
}

// remove removes a peer from the Raft configuration and from the state. running reports that its
// process has not ended. It is about to stop then, and is not admitted again. Gossip alone cannot
// tell, because it needs seconds to notice a dead peer, which may come back.
//
// deny reports that an operator has decided it, so that its certificates are denied. That is
// recorded first: if the leader fails halfway, the next one removes the peer
// (reconciler.finishRemovals).
func (ms *membership) remove(ctx context.Context, id string, running, deny bool) error {
	if _, ok := ms.n.terms.current(); !ok {
		return outcome.ErrNotLeader
	}
	if m, ok := ms.n.gossip.Peer(id); ok && m.Alive && running {
		ms.departed.Store(id, processOf(m.Meta))
	}
	if deny {
		if err := ms.deny(ctx, id, true); err != nil {
			return err
		}
		// failpoint: peer-denied
	}
	if err := wait.For(ctx, ms.n.raft.RemoveServer(raft.ServerID(id), 0, changeTimeout)); err != nil {
		leader, _, _ := ms.n.Leader()
		return &outcome.Error{Outcome: raftOutcome(err, true), Leader: leader,
			Err: fmt.Errorf("remove peer %s from the raft configuration: %w", id, err)}
	}
	// failpoint: server-removed
	if err := ms.forgetPeer(ctx, id); err != nil {
		// The peer is removed nevertheless, and the leader deletes its record later: see
		// reconciler.forgetRemoved.
		ms.n.log.Warn("peer removed, but its record is not deleted yet, will retry", "id", id, "error", err)
	}
	return nil
}

// deny denies the certificates that a peer has: those that were seen, and all that were made
// before. If the peer is to be removed from Raft's configuration, begin is true; otherwise its
// record is deleted.
func (ms *membership) deny(ctx context.Context, id string, begin bool) error {
	ms.certs.Lock()
	defer ms.certs.Unlock()
	d := &internalv1.PeerAdmission{Id: id, IssuedBefore: timestamppb.New(ms.n.cfg.Clock.Now())}
	if rec, ok := ms.n.fsm.View().Peer(id); ok {
		d.Serials = rec.GetSerials()
	}
	if a, ok := ms.n.fsm.View().Admission(id); ok {
		d.Serials = append(slices.Clone(a.GetSerials()), d.GetSerials()...)
	}
	if s, ok := ms.serials.Load(id); ok {
		d.Serials = append(slices.Clone(d.GetSerials()), s.(string))
	}
	slices.Sort(d.Serials)
	d.Serials = slices.Compact(d.Serials)
	d.Serials = d.Serials[max(0, len(d.Serials)-keptSerials):]
	return ms.n.committer.commit(ctx, &internalv1.Command{
		Op: &internalv1.Command_RemovePeer{RemovePeer: &internalv1.RemovePeer{Id: id, Denial: d, Begin: begin}},
	})
}

// keptSerials is how many serials of a peer's certificates are kept. Certificates are renewed
// rarely, and those that were made before the removal are denied anyway.
const keptSerials = 32

// AdmitPeer lets a peer join that was removed, or that waits for an admin. It works only on the
// leader.
func (n *Node) AdmitPeer(ctx context.Context, id string) error {
	if _, ok := n.terms.current(); !ok {
		return n.refusal(n.terms.notReady())
	}
	if err := peertls.CheckName("peer id", id); err != nil {
		return &fsm.Error{Code: fsm.InvalidArgument, Reason: "INVALID_FIELD", Message: err.Error()}
	}
	err := n.committer.commit(ctx, &internalv1.Command{
		Op: &internalv1.Command_AdmitPeer{AdmitPeer: &internalv1.AdmitPeer{Id: id}},
	})
	if err != nil {
		return n.refusal(err)
	}
	n.membership.departed.Delete(id)
	n.log.Warn("peer admitted by an operator", "id", id)
	n.gossip.Notify()
	return nil
}

// renew returns another certificate of a member, whose present one is given. Its serial is recorded
// before it is used, so that it is denied with the peer.
func (ms *membership) renew(ctx context.Context, id string, present *x509.Certificate, csr []byte) ([]byte, error) {
	no := func(format string, args ...any) error {
		return &fsm.Error{Code: fsm.FailedPrecondition, Reason: "NOT_RENEWED", Message: fmt.Sprintf(format, args...)}
	}
	if ms.n.cfg.SignPeer == nil {
		return nil, no("the leader %s has no key that signs certificates: set its tls_peer_ca", ms.n.cfg.NodeID)
	}
	if _, ok := ms.n.terms.current(); !ok {
		return nil, ms.n.refusal(ms.n.terms.notReady())
	}
	ms.certs.Lock()
	defer ms.certs.Unlock()
	if err := ms.n.roster.Denied(id, present); err != nil {
		return nil, no("%s", err)
	}
	rec, ok := ms.n.fsm.View().Peer(id)
	if _, in := ms.n.server(id); !in || !ok {
		return nil, no("peer %q is no member yet", id)
	}
	if a, ok := ms.n.fsm.View().Admission(id); ok && a.GetRemoving() {
		return nil, no("peer %q is being removed", id)
	}
	chain, serial, err := ms.n.cfg.SignPeer(present, csr)
	if err != nil {
		return nil, no("sign a certificate of peer %q: %s", id, err)
	}
	rec = proto.CloneOf(rec)
	rec.Serials = append(rec.GetSerials(), serial)
	rec.Serials = rec.Serials[max(0, len(rec.Serials)-keptSerials):]
	if err := ms.n.committer.commit(ctx, putPeer(rec)); err != nil {
		return nil, ms.n.refusal(err)
	}
	ms.n.log.Info("certificate renewed", "id", id, "serial", serial)
	return chain, nil
}

// askRenewal asks the leader for another certificate of this peer.
func (ms *membership) askRenewal(ctx context.Context, csr []byte) ([]byte, error) {
	n := ms.n
	leader, self, ok := n.Leader()
	switch {
	case !ok:
		return nil, outcome.ErrNoLeader
	case self:
		return ms.renew(ctx, leader, n.cfg.TLS.Leaf(), csr)
	}
	c, err := n.conns.Peer(leader)
	if err != nil {
		return nil, err
	}
	r, err := c.RenewCertificate(ctx, &internalv1.RenewCertificateRequest{PeerId: n.cfg.NodeID, Csr: csr})
	return r.GetChain(), err
}

// forgetPeer deletes the record of a removed peer.
func (ms *membership) forgetPeer(ctx context.Context, id string) error {
	return ms.n.committer.commit(ctx, &internalv1.Command{
		Op: &internalv1.Command_RemovePeer{RemovePeer: &internalv1.RemovePeer{Id: id}},
	})
}

// leave asks the leader to remove this peer from the cluster.
func (n *Node) leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	for {
		changed := n.changed.Wait()
		var err error
		if id, self, ok := n.Leader(); ok && !self {
			if err = n.askLeave(ctx, id); err == nil {
				return nil
			}
		} else if self {
			// The peer was asked to hand over, but its successor may not have won, so it
			// still leads or leads again.
			if err = n.terms.transfer(ctx); err != nil {
				err = fmt.Errorf("hand over the leadership: %w", err)
			}
		}
		select {
		case <-changed:
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("leave the cluster: %w", ctx.Err()), err)
		}
	}
}

func (n *Node) askLeave(ctx context.Context, leader string) error {
	c, err := n.conns.Peer(leader)
	if err != nil {
		return err
	}
	_, err = c.Leave(ctx, &internalv1.LeaveRequest{PeerId: n.cfg.NodeID})
	return err
}

func newRoster(n *Node) *roster.Roster {
	return roster.New(n.life, roster.Config{
		Self: n.cfg.NodeID, Servers: n.servers,
		Founders:  func() []string { return ids(n.ident.get().Forming) },
		Admission: func(id string) (*internalv1.PeerAdmission, bool) { return n.fsm.View().Admission(id) },
		VotedFor:  func(id string, term uint64) bool { return n.gate.VotedFor(id, term) },
		Vouch: func(ctx context.Context, id string, req *internalv1.VouchRequest) (*internalv1.VouchResponse, error) {
			c, err := n.conns.Peer(id)
			if err != nil {
				return nil, err
			}
			return c.Vouch(ctx, req)
		},
		Refused: func() { n.metrics.refusedPeers.Inc() },
		Logger:  n.log,
	})
}

// Member returns an error if the caller of a connection is not a peer that is a member of the
// cluster now. Without TLS every process on loopback counts as one.
func (n *Node) Member(ctx context.Context, c *peertls.Caller) error {
	switch {
	case n.cfg.TLS == nil:
		return nil
	case c == nil || c.Peer == "" || c.Cluster != n.cfg.TLS.Cluster():
		return errors.New("the caller has no certificate of a peer of this cluster")
	}
	return n.roster.Member(ctx, c.Peer, c.Cert)
}
