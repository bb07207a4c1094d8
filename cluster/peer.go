package cluster

import (
	"context"
	"crypto/sha256"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/cluster/internal/transport"
	"github.com/holdfast-metal/holdfast/cluster/peertls"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// peerServer serves the requests of other peers.
type peerServer struct {
	internalv1.UnimplementedPeerServiceServer
	n *Peer
}

// RegisterPeerService registers the service that other peers call. It must be reachable at
// AdvertiseGRPC.
func (n *Peer) RegisterPeerService(s grpc.ServiceRegistrar) {
	internalv1.RegisterPeerServiceServer(s, peerServer{n: n})
}

// Confirm returns this peer's term. A peer that lost its data has forgotten its votes, so
// it confirms nothing, and neither does one whose data directory is old.
func (s peerServer) Confirm(
	_ context.Context, req *internalv1.ConfirmRequest,
) (*internalv1.ConfirmResponse, error) {
	if err := s.n.marks.Check("that asks", req.GetKnown()); err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	if !s.n.gate.Admitted() {
		return nil, status.Error(codes.FailedPrecondition, transport.ErrNotAdmitted.Error())
	}
	return &internalv1.ConfirmResponse{Term: s.n.raft.CurrentTerm(), PeerId: s.n.cfg.PeerID}, nil
}

// ReadIndex returns the index that a read must wait for if it begins now.
func (s peerServer) ReadIndex(
	ctx context.Context,
	req *internalv1.ReadIndexRequest,
) (*internalv1.ReadIndexResponse, error) {
	if err := s.n.reader.WaitReady(ctx); err != nil {
		return nil, s.n.refusal(err)
	}
	index, err := s.n.reader.Confirmed(ctx, s.n.ackingPeer(ctx, req))
	if err != nil {
		return nil, s.n.refusal(err)
	}
	return &internalv1.ReadIndexResponse{Index: index}, nil
}

// ackingPeer returns the id of the peer that asks for a read index, if it has this leader's
// term and may vote; otherwise "". When it asked, it had voted for no later leader. So an
// index that is read now covers everything acknowledged before it asked, which was before
// its reads began.
func (n *Peer) ackingPeer(ctx context.Context, req *internalv1.ReadIndexRequest) string {
	r, ok := n.terms.Current()
	if !ok || req.GetTerm() != r.Term || n.guard.CheckSelf(ctx, req.GetPeerId()) != nil {
		return ""
	}
	return req.GetPeerId()
}

// StandDown stops leader tasks of earlier terms and waits until they have ended.
func (s peerServer) StandDown(
	ctx context.Context,
	req *internalv1.StandDownRequest,
) (*internalv1.StandDownResponse, error) {
	if err := s.n.terms.EndBefore(ctx, req.GetTerm()); err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return &internalv1.StandDownResponse{}, nil
}

// Admit allows this peer to vote, because it is a founder or the leader has seen it catch
// up.
func (s peerServer) Admit(_ context.Context, req *internalv1.AdmitRequest) (*internalv1.AdmitResponse, error) {
	if err := s.n.founding.Admit(req); err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return &internalv1.AdmitResponse{}, nil
}

// Stats returns this peer's indexes, term and load.
func (s peerServer) Stats(context.Context, *internalv1.StatsRequest) (*internalv1.StatsResponse, error) {
	return s.n.report.stats(), nil
}

// Vouch returns the place of a peer in the configuration of this one.
func (s peerServer) Vouch(_ context.Context, req *internalv1.VouchRequest) (*internalv1.VouchResponse, error) {
	a, err := s.n.roster.Vouch(req)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return a, nil
}

// Meet compares the data directories of this peer and the calling one. A caller whose directory is
// old learns that from the answer.
func (s peerServer) Meet(ctx context.Context, req *internalv1.MeetRequest) (*internalv1.MeetResponse, error) {
	if err := s.n.guard.CheckSelf(ctx, req.GetGreeting().GetPeerId()); err != nil {
		return nil, err
	}
	if err := s.n.meet(req.GetGreeting()); errors.Is(err, ErrStale) || errors.Is(err, ErrDisk) {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return &internalv1.MeetResponse{Greeting: s.n.marks.Greeting()}, nil
}

// StateSum returns a checksum of this peer's state, to compare peers.
func (s peerServer) StateSum(context.Context, *internalv1.StateSumRequest) (*internalv1.StateSumResponse, error) {
	snap, err := s.n.fsm.Snapshot()
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	sum := sha256.New()
	if _, err := snap.WriteTo(sum); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &internalv1.StateSumResponse{PeerId: s.n.cfg.PeerID, AppliedIndex: snap.Index(), Sha256: sum.Sum(nil)}, nil
}

// RenewCertificate returns another certificate of the calling peer.
func (s peerServer) RenewCertificate(
	ctx context.Context, req *internalv1.RenewCertificateRequest,
) (*internalv1.RenewCertificateResponse, error) {
	if err := s.n.guard.CheckSelf(ctx, req.GetPeerId()); err != nil {
		return nil, err
	}
	caller, ok := peertls.FromContext(ctx, s.n.cfg.Clock.Now())
	if !ok {
		return nil, status.Error(codes.PermissionDenied, "the caller has no certificate")
	}
	chain, err := s.n.members.Renew(ctx, caller.Peer, caller.Cert, req.GetCsr())
	if err != nil {
		return nil, err
	}
	return &internalv1.RenewCertificateResponse{Chain: chain}, nil
}

// Leave removes the calling peer from the cluster.
func (s peerServer) Leave(ctx context.Context, req *internalv1.LeaveRequest) (*internalv1.LeaveResponse, error) {
	if err := s.n.guard.CheckSelf(ctx, req.GetPeerId()); err != nil {
		return nil, err
	}
	if err := s.n.members.Leave(ctx, req.GetPeerId()); err != nil {
		return nil, s.n.refusal(err)
	}
	s.n.log.Info("peer has left", "peer", req.GetPeerId())
	return &internalv1.LeaveResponse{}, nil
}

// meet compares this peer's data directory with that of a peer that has connected or answered.
func (n *Peer) meet(g *internalv1.Greeting) error {
	err := n.marks.Meet(g)
	if err != nil {
		n.roster.LogRefusal("greeting", g.GetPeerId(), err)
	}
	return err
}
