package cluster

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/cluster/internal/transport"
	"github.com/holdfast-metal/holdfast/cluster/internal/wait"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// peerServer serves the requests of other peers.
type peerServer struct {
	internalv1.UnimplementedPeerServiceServer
	n *Node
}

// RegisterPeerService registers the service that other peers call. It must be reachable at
// AdvertiseGRPC.
func (n *Node) RegisterPeerService(s grpc.ServiceRegistrar) {
	internalv1.RegisterPeerServiceServer(s, peerServer{n: n})
}

// Confirm returns this peer's term. A peer that lost its data has forgotten its votes, so
// it confirms nothing.
func (s peerServer) Confirm(context.Context, *internalv1.ConfirmRequest) (*internalv1.ConfirmResponse, error) {
	if !s.n.gate.Admitted() {
		return nil, status.Error(codes.FailedPrecondition, transport.ErrNotAdmitted.Error())
	}
	return &internalv1.ConfirmResponse{Term: s.n.raft.CurrentTerm(), PeerId: s.n.cfg.NodeID}, nil
}

// ReadIndex returns the index that a read must wait for if it begins now.
func (s peerServer) ReadIndex(
	ctx context.Context,
	req *internalv1.ReadIndexRequest,
) (*internalv1.ReadIndexResponse, error) {
	if err := s.n.waitReady(ctx); err != nil {
		return nil, s.n.refusal(err)
	}
	index, err := s.n.leaderReadIndex(ctx, s.n.ackingPeer(ctx, req))
	if err != nil {
		return nil, s.n.refusal(err)
	}
	return &internalv1.ReadIndexResponse{Index: index}, nil
}

// StandDown stops leader tasks of earlier terms and waits until they have ended.
func (s peerServer) StandDown(
	ctx context.Context,
	req *internalv1.StandDownRequest,
) (*internalv1.StandDownResponse, error) {
	if r := s.n.leadership.Load(); r != nil && r.term < req.GetTerm() {
		s.n.stepDown(r.term)
	}
	if err := s.n.sessions.stopBefore(ctx, req.GetTerm()); err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return &internalv1.StandDownResponse{}, nil
}

// Admit allows this peer to vote, because it is a founder or the leader has seen it catch
// up.
func (s peerServer) Admit(_ context.Context, req *internalv1.AdmitRequest) (*internalv1.AdmitResponse, error) {
	if err := s.n.admitFor(req); err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return &internalv1.AdmitResponse{}, nil
}

func (n *Node) admitFor(req *internalv1.AdmitRequest) error {
	rec := n.ident.get()
	if req.GetInstance() != rec.Instance {
		return fmt.Errorf("this is instance %s of peer %s, not %s", rec.Instance, n.cfg.NodeID, req.GetInstance())
	}
	if rec.ClusterID != "" && rec.ClusterID != req.GetClusterId() {
		return fmt.Errorf("this peer belongs to cluster %s, not %s", rec.ClusterID, req.GetClusterId())
	}
	if rec.Admitted {
		return nil
	}
	if !n.hasRaftState() {
		if req.GetPrepare() {
			return n.promised(req.GetClusterId())
		}
		return n.agree(req.GetClusterId())
	}
	if id := n.fsm.View().Meta().GetClusterId(); id != req.GetClusterId() {
		return fmt.Errorf("this peer's state belongs to cluster %q, not %s", id, req.GetClusterId())
	}
	err := n.ident.update(func(r *identityRecord) error {
		r.Admitted, r.ClusterID = true, req.GetClusterId()
		return nil
	})
	if err != nil {
		return err
	}
	// failpoint: admission-stored
	n.admit()
	return nil
}

// Stats returns this peer's indexes, term and load.
func (s peerServer) Stats(context.Context, *internalv1.StatsRequest) (*internalv1.StatsResponse, error) {
	return s.n.stats(), nil
}

func (n *Node) stats() *internalv1.StatsResponse {
	return &internalv1.StatsResponse{
		PeerId: n.cfg.NodeID, Instance: n.ident.get().Instance,
		AppliedIndex: n.fsm.Applied(), LastIndex: n.raft.LastIndex(), Term: n.raft.CurrentTerm(),
		LastContactMs: n.lastContact(), State: n.raft.State().String(), Version: n.cfg.Version,
		MayVote: proto.Bool(n.gate.Admitted()), Load: n.load(),
	}
}

// lastContact returns the milliseconds since the last contact with the leader. It is 0 on
// the leader and -1 if there was none.
func (n *Node) lastContact() int64 {
	if n.raft.State() == raft.Leader {
		return 0
	}
	last := n.raft.LastContact()
	if last.IsZero() {
		return -1
	}
	return time.Since(last).Milliseconds()
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
	return &internalv1.StateSumResponse{PeerId: s.n.cfg.NodeID, AppliedIndex: snap.Index(), Sha256: sum.Sum(nil)}, nil
}

// Leave removes the calling peer from the cluster.
func (s peerServer) Leave(ctx context.Context, req *internalv1.LeaveRequest) (*internalv1.LeaveResponse, error) {
	if err := s.n.checkSelf(ctx, req.GetPeerId()); err != nil {
		return nil, err
	}
	if err := s.n.remove(ctx, req.GetPeerId()); err != nil {
		return nil, s.n.refusal(err)
	}
	s.n.log.Info("peer has left", "id", req.GetPeerId())
	return &internalv1.LeaveResponse{}, nil
}

// remove removes a peer from the Raft configuration and from the state.
func (n *Node) remove(ctx context.Context, id string) error {
	if _, ok := n.current(); !ok {
		return ErrNotLeader
	}
	if m, ok := n.gossip.Peer(id); ok && m.Alive { // it is about to stop; a dead one may come back
		n.departed.add(id, m.Meta.GetInstance())
	}
	if err := wait.For(ctx, n.raft.RemoveServer(raft.ServerID(id), 0, changeTimeout)); err != nil {
		leader, _, _ := n.Leader()
		return &OutcomeError{Outcome: raftOutcome(err, true), Leader: leader,
			Err: fmt.Errorf("remove peer %s from the raft configuration: %w", id, err)}
	}
	// failpoint: server-removed
	if err := n.forgetPeer(ctx, id); err != nil {
		// The peer is removed nevertheless, and the leader deletes its record later: see
		// reconciler.forgetRemoved.
		n.log.Warn("peer removed, but its record is not deleted yet, will retry", "id", id, "error", err)
	}
	return nil
}

// forgetPeer deletes the record of a removed peer.
func (n *Node) forgetPeer(ctx context.Context, id string) error {
	return n.commit(ctx, &internalv1.Command{
		Op: &internalv1.Command_RemovePeer{RemovePeer: &internalv1.RemovePeer{Id: id}},
	})
}

// refusal returns the error of a call that has changed nothing.
func (n *Node) refusal(err error) error {
	var o *OutcomeError
	if errors.As(err, &o) {
		return o
	}
	leader, _, _ := n.Leader()
	return &OutcomeError{Outcome: NotApplied, Leader: leader, Err: err}
}

// askConfirm returns nil if a peer confirms that it still has the term.
func (n *Node) askConfirm(ctx context.Context, id string, term uint64) error {
	c, err := n.conns.Peer(id)
	if err != nil {
		return err
	}
	r, err := c.Confirm(ctx, &internalv1.ConfirmRequest{Term: term})
	if err != nil {
		return err
	}
	if r.GetPeerId() != id || r.GetTerm() != term {
		return fmt.Errorf("peer %s has term %d", r.GetPeerId(), r.GetTerm())
	}
	return nil
}

func (n *Node) peerStats(ctx context.Context, id string) (*internalv1.StatsResponse, error) {
	if id == n.cfg.NodeID {
		return n.stats(), nil
	}
	c, err := n.conns.Peer(id)
	if err != nil {
		return nil, err
	}
	return c.Stats(ctx, &internalv1.StatsRequest{})
}

func (n *Node) askLeave(ctx context.Context, leader string) error {
	c, err := n.conns.Peer(leader)
	if err != nil {
		return err
	}
	_, err = c.Leave(ctx, &internalv1.LeaveRequest{PeerId: n.cfg.NodeID})
	return err
}

// PeerConn returns the connection to another peer, for services between peers. The node
// owns it: the caller must not close it.
func (n *Node) PeerConn(id string) (grpc.ClientConnInterface, error) { return n.conns.Get(id) }
