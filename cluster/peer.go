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

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// peerServer answers the other peers.
type peerServer struct {
	internalv1.UnimplementedPeerServiceServer
	n *Node
}

// RegisterPeerService adds the service that the other peers ask. It must be reachable at
// AdvertiseGRPC.
func (n *Node) RegisterPeerService(s grpc.ServiceRegistrar) {
	internalv1.RegisterPeerServiceServer(s, peerServer{n: n})
}

// Confirm returns the term that this peer has. A peer that lost its data does not know what it
// voted for: it confirms nothing.
func (s peerServer) Confirm(context.Context, *internalv1.ConfirmRequest) (*internalv1.ConfirmResponse, error) {
	if !s.n.gate.admitted.Load() {
		return nil, status.Error(codes.FailedPrecondition, errNotAdmitted.Error())
	}
	return &internalv1.ConfirmResponse{Term: s.n.raft.CurrentTerm(), PeerId: s.n.cfg.NodeID}, nil
}

// ReadIndex returns the index that a read which begins now must wait for.
func (s peerServer) ReadIndex(ctx context.Context, req *internalv1.ReadIndexRequest) (*internalv1.ReadIndexResponse, error) {
	if err := s.n.waitReign(ctx); err != nil {
		return nil, s.n.refusal(err)
	}
	index, err := s.n.leaderReadIndex(ctx, s.n.vouches(ctx, req))
	if err != nil {
		return nil, s.n.refusal(err)
	}
	return &internalv1.ReadIndexResponse{Index: index}, nil
}

// StandDown ends leader tasks of earlier terms and waits until they have ended.
func (s peerServer) StandDown(ctx context.Context, req *internalv1.StandDownRequest) (*internalv1.StandDownResponse, error) {
	if r := s.n.reign.Load(); r != nil && r.term < req.GetTerm() {
		s.n.dethrone(r.term)
	}
	if err := s.n.sessions.stopBefore(ctx, req.GetTerm()); err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return &internalv1.StandDownResponse{}, nil
}

// Admit lets this peer vote: it is a founder, or the leader has seen it catch up.
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
		return fmt.Errorf("this peer's state is of cluster %q, not %s", id, req.GetClusterId())
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

// Stats reports how far this peer is.
func (s peerServer) Stats(context.Context, *internalv1.StatsRequest) (*internalv1.StatsResponse, error) {
	return s.n.stats(), nil
}

func (n *Node) stats() *internalv1.StatsResponse {
	return &internalv1.StatsResponse{
		PeerId: n.cfg.NodeID, Instance: n.ident.get().Instance,
		AppliedIndex: n.fsm.Applied(), LastIndex: n.raft.LastIndex(), Term: n.raft.CurrentTerm(),
		LastContactMs: n.lastContact(), State: n.raft.State().String(), Version: n.cfg.Version,
		MayVote: proto.Bool(n.gate.admitted.Load()), Load: n.load(),
	}
}

// lastContact returns the milliseconds since the leader was heard: 0 on the leader, -1 for never.
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

// StateSum sums up this peer's state, so that somebody can hold the peers against each other.
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

// Leave takes a peer out of the cluster.
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

// remove takes a peer out of the Raft configuration and of the record.
func (n *Node) remove(ctx context.Context, id string) error {
	if _, ok := n.current(); !ok {
		return ErrNotLeader
	}
	if m, ok := n.gossip.peer(id); ok && m.alive { // it says good-bye, and ends in a moment; one that is dead may come back
		n.departed.add(id, m.meta.GetInstance())
	}
	if err := await(ctx, n.raft.RemoveServer(raft.ServerID(id), 0, changeTimeout)); err != nil {
		leader, _, _ := n.Leader()
		return &OutcomeError{Outcome: raftOutcome(err, true), Leader: leader,
			Err: fmt.Errorf("remove peer %s from the raft configuration: %w", id, err)}
	}
	// failpoint: server-removed
	if err := n.forgetPeer(ctx, id); err != nil {
		// The peer is removed all the same, and the leader takes its record away later: see
		// reconciler.forget.
		n.log.Warn("peer is removed, and its record is not yet", "id", id, "error", err)
	}
	return nil
}

// forgetPeer takes a peer that is no server any more out of the record.
func (n *Node) forgetPeer(ctx context.Context, id string) error {
	return n.commit(ctx, &internalv1.Command{
		FeatureLevel: 1,
		Op:           &internalv1.Command_RemovePeer{RemovePeer: &internalv1.RemovePeer{Id: id}},
	})
}

// refusal makes the error of a call that has changed nothing.
func (n *Node) refusal(err error) error {
	var o *OutcomeError
	if errors.As(err, &o) {
		return o
	}
	leader, _, _ := n.Leader()
	return &OutcomeError{Outcome: NotApplied, Leader: leader, Err: err}
}

// askConfirm asks a peer whether it still has the term.
func (n *Node) askConfirm(ctx context.Context, id string, term uint64) error {
	c, err := n.conns.peer(id)
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
	c, err := n.conns.peer(id)
	if err != nil {
		return nil, err
	}
	return c.Stats(ctx, &internalv1.StatsRequest{})
}

func (n *Node) askLeave(ctx context.Context, leader string) error {
	c, err := n.conns.peer(leader)
	if err != nil {
		return err
	}
	_, err = c.Leave(ctx, &internalv1.LeaveRequest{PeerId: n.cfg.NodeID})
	return err
}
