package members

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/cluster/internal/gossip"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Renew returns another certificate of a member, whose present one is given. Its serial is recorded
// before it is used, so that it is denied with the peer.
func (ms *Members) Renew(ctx context.Context, id string, present *x509.Certificate, csr []byte) ([]byte, error) {
	no := func(format string, args ...any) error {
		return &fsm.Error{Code: fsm.FailedPrecondition, Reason: "NOT_RENEWED", Message: fmt.Sprintf(format, args...)}
	}
	if ms.cfg.SignPeer == nil {
		return nil, no("the leader %s has no key that signs certificates: set its tls_peer_ca", ms.cfg.Self)
	}
	if _, err := ms.cfg.Leads(); err != nil {
		return nil, ms.refusal(err)
	}
	ms.certs.Lock()
	defer ms.certs.Unlock()
	if err := ms.cfg.Denied(id, present); err != nil {
		return nil, no("%s", err)
	}
	rec, ok := ms.cfg.View().Peer(id)
	if _, in := ms.server(id); !in || !ok {
		return nil, no("peer %q is no member yet", id)
	}
	if a, ok := ms.cfg.View().Admission(id); ok && a.GetRemoving() {
		return nil, no("peer %q is being removed", id)
	}
	chain, serial, err := ms.cfg.SignPeer(present, csr)
	if err != nil {
		return nil, no("sign a certificate of peer %q: %s", id, err)
	}
	rec = proto.CloneOf(rec)
	rec.Serials = append(rec.GetSerials(), serial)
	rec.Serials = rec.Serials[max(0, len(rec.Serials)-keptSerials):]
	if err := ms.cfg.Commit(ctx, putPeer(rec)); err != nil {
		return nil, ms.refusal(err)
	}
	ms.cfg.Logger.Info("certificate renewed", "peer", id, "serial", serial)
	return chain, nil
}

// keepRecord commits the record of a peer if it has changed.
func (ms *Members) keepRecord(ctx context.Context, m gossip.Member) error {
	ms.certs.Lock()
	defer ms.certs.Unlock()
	rec, _ := ms.cfg.View().Peer(m.Meta.GetId())
	want := ms.record(m, rec)
	if proto.Equal(rec, want) {
		return nil
	}
	return ms.cfg.Commit(ctx, putPeer(want))
}

// Record returns the command that records a peer of a new cluster.
func (ms *Members) Record(m gossip.Member) *internalv1.Command { return putPeer(ms.record(m, nil)) }

// record returns the state's record of a peer, which replaces an earlier one.
func (ms *Members) record(m gossip.Member, had *internalv1.PeerRecord) *internalv1.PeerRecord {
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
