package operator

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/holdfast-metal/holdfast/internal/secrets"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/request"
)

// Admin administers the cluster (*cluster.Peer). All of it runs on the leader.
type Admin interface {
	// PauseTasks stops the leader's tasks, calls do, which may commit, and starts the
	// tasks again.
	PauseTasks(ctx context.Context, do func(context.Context) error) error
	// TransferTo transfers the leadership and returns the new leader.
	TransferTo(ctx context.Context, to string) (string, error)
	Membership
	Autopilot(ctx context.Context) (*holdfastv1.Autopilot, error)
}

// Membership removes and admits peers (*cluster.Peer).
type Membership interface {
	RemovePeer(ctx context.Context, id string, force bool) error
	AdmitPeer(ctx context.Context, id string) error
}

// Peers connects to the other peers (*cluster.Peer).
type Peers interface {
	PeerConn(id string) (grpc.ClientConnInterface, error)
}

// Notes records in the audit trail that a peer streams a snapshot
// (holdfastv1.OperatorServiceClient).
type Notes interface {
	NoteSnapshot(
		ctx context.Context, r *holdfastv1.NoteSnapshotRequest, opts ...grpc.CallOption,
	) (*holdfastv1.NoteSnapshotResponse, error)
}

// Config configures a Service.
type Config struct {
	PeerID  string
	Version string
	Admin   Admin            // without one the cluster cannot be administered
	Peers   Peers            // without them no other peer reads a snapshot ahead
	Keys    *secrets.Keyring // of the secrets in a snapshot; may be nil
	Notes   Notes
	Status  func(ctx context.Context) *holdfastv1.ClusterStatus
}

// Service implements OperatorService.
type Service struct {
	holdfastv1.UnimplementedOperatorServiceServer
	*edge.Peer
	cfg Config
}

// New returns the service of a peer.
func New(peer *edge.Peer, cfg Config) *Service { return &Service{Peer: peer, cfg: cfg} }

var errNoAdmin = errors.New("cluster administration is not available on this peer")

// keeper returns the keeper, or an error if there is none.
func (s *Service) admin() (Admin, error) {
	if s.cfg.Admin == nil {
		return nil, errNoAdmin
	}
	return s.cfg.Admin, nil
}

// TransferLeadership transfers the leadership to another peer.
func (s *Service) TransferLeadership(
	ctx context.Context, r *holdfastv1.TransferLeadershipRequest,
) (*holdfastv1.TransferLeadershipResponse, error) {
	k, err := s.admin()
	if err != nil {
		return nil, err
	}
	if err := s.recordAudit(ctx, r.GetTo()); err != nil {
		return nil, err
	}
	start := time.Now()
	to, err := k.TransferTo(ctx, r.GetTo())
	if err != nil {
		return nil, err
	}
	return &holdfastv1.TransferLeadershipResponse{
		From: s.cfg.PeerID, To: to, Took: durationpb.New(time.Since(start)),
	}, nil
}

// recordAudit records a call about a peer, or about none in particular, in the audit trail. It
// changes nothing else in the state.
func (s *Service) recordAudit(ctx context.Context, member string) error {
	c := auth.Command(ctx)
	c.Op = &internalv1.Command_NoteBackup{NoteBackup: &internalv1.NoteBackup{Members: true, Member: member}}
	_, err := s.Cluster.Apply(ctx, c)
	return err
}

// RemovePeer removes a lost peer from the cluster.
func (s *Service) RemovePeer(
	ctx context.Context, r *holdfastv1.RemovePeerRequest,
) (*holdfastv1.RemovePeerResponse, error) {
	if err := request.Required("id", r.GetId()); err != nil {
		return nil, err
	}
	k, err := s.admin()
	if err != nil {
		return nil, err
	}
	if err := s.recordAudit(ctx, r.GetId()); err != nil {
		return nil, err
	}
	if err := k.RemovePeer(ctx, r.GetId(), r.GetForce()); err != nil {
		return nil, err
	}
	return &holdfastv1.RemovePeerResponse{}, nil
}

// AdmitPeer lets a removed or waiting peer join.
func (s *Service) AdmitPeer(
	ctx context.Context, r *holdfastv1.AdmitPeerRequest,
) (*holdfastv1.AdmitPeerResponse, error) {
	if err := request.Required("id", r.GetId()); err != nil {
		return nil, err
	}
	k, err := s.admin()
	if err != nil {
		return nil, err
	}
	if err := s.recordAudit(ctx, r.GetId()); err != nil {
		return nil, err
	}
	if err := k.AdmitPeer(ctx, r.GetId()); err != nil {
		return nil, err
	}
	return &holdfastv1.AdmitPeerResponse{}, nil
}

// Probe commits a command that changes nothing and writes no audit event.
func (s *Service) Probe(ctx context.Context, _ *holdfastv1.ProbeRequest) (*holdfastv1.ProbeResponse, error) {
	res, err := s.Cluster.Apply(ctx, &internalv1.Command{
		Op: &internalv1.Command_NoOp{NoOp: &internalv1.NoOp{}},
	})
	if err != nil {
		return nil, err
	}
	return &holdfastv1.ProbeResponse{Index: res.Index, Leader: s.cfg.PeerID}, nil
}
