package auth

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/cluster/call"
	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Peers is the access of the gate to the leader (*cluster.Peer).
type Peers interface {
	Leader() (id string, self, ok bool)
	PeerConn(id string) (grpc.ClientConnInterface, error)
}

// AuditForwarder sends refusals and new sessions to the leader, which commits them.
type AuditForwarder struct {
	internalv1.UnimplementedAuditForwarderServer
	peers  Peers
	commit func(context.Context, *internalv1.Command) error
}

// NewAuditForwarder returns a forwarder. The leader calls commit.
func NewAuditForwarder(peers Peers, commit func(context.Context, *internalv1.Command) error) *AuditForwarder {
	return &AuditForwarder{peers: peers, commit: commit}
}

// leader returns the connection to the leader, or nil if this peer leads.
func (f *AuditForwarder) leader() (grpc.ClientConnInterface, error) {
	id, self, ok := f.peers.Leader()
	switch {
	case !ok:
		return nil, errors.New("no leader is known")
	case self:
		return nil, nil
	}
	return f.peers.PeerConn(id)
}

// Report implements Deps.Report.
func (f *AuditForwarder) Report(ctx context.Context, d *internalv1.RecordDenials) error {
	leader, err := f.leader()
	switch {
	case err != nil:
	case leader == nil:
		_, err = f.RecordDenials(ctx, d)
	default:
		_, err = internalv1.NewAuditForwarderClient(leader).RecordDenials(ctx, d)
	}
	if err != nil {
		return fmt.Errorf("report to the leader: %w", err)
	}
	return nil
}

// Note implements Deps.Note.
func (f *AuditForwarder) Note(ctx context.Context, n *internalv1.NoteSessions) error {
	leader, err := f.leader()
	switch {
	case err != nil:
	case leader == nil:
		_, err = f.NoteSessions(ctx, n)
	default:
		_, err = internalv1.NewAuditForwarderClient(leader).NoteSessions(ctx, n)
	}
	if err != nil {
		return fmt.Errorf("note sessions at the leader: %w", err)
	}
	return nil
}

// RecordDenials commits the refusals of another peer.
func (f *AuditForwarder) RecordDenials(
	ctx context.Context, d *internalv1.RecordDenials,
) (*internalv1.RecordDenialsResponse, error) {
	err := f.commit(ctx, &internalv1.Command{Op: &internalv1.Command_RecordDenials{RecordDenials: d}})
	return &internalv1.RecordDenialsResponse{}, err
}

// NoteSessions commits the new sessions of another peer.
func (f *AuditForwarder) NoteSessions(
	ctx context.Context, n *internalv1.NoteSessions,
) (*internalv1.NoteSessionsResponse, error) {
	err := f.commit(ctx, &internalv1.Command{Op: &internalv1.Command_NoteSessions{NoteSessions: n}})
	return &internalv1.NoteSessionsResponse{}, err
}

// Cluster is the peer that a gate protects (*cluster.Peer).
type Cluster interface {
	Peers
	Apply(ctx context.Context, cmd *internalv1.Command) (fsm.Result, error)
	View(ctx context.Context) (*fsm.View, error)
}

// State is this peer's own copy of the replicated state (*fsm.FSM).
type State interface {
	View() *fsm.View
}

// ForNode returns the gate of a peer and its forwarder. The caller must register the forwarder
// and run the gate's Denials.
func ForNode(cfg Config, node Cluster, state State) (*Gate, *AuditForwarder, error) {
	forwarder := NewAuditForwarder(node, func(ctx context.Context, c *internalv1.Command) error {
		c.Time, c.Principal = timestamppb.Now(), "system"
		_, err := node.Apply(ctx, c)
		return err
	})
	g, err := New(cfg, Deps{
		Records: func() Records { return state.View() },
		Fresh: func(ctx context.Context) (Records, error) {
			v, err := node.View(call.WithConsistency(ctx, call.Consistency{}))
			if err != nil {
				return nil, err
			}
			return v, nil
		},
		Report:  forwarder.Report,
		Note:    forwarder.Note,
		Session: func(id string) (*holdfastv1.Session, bool) { return state.View().Session(id) },
	})
	return g, forwarder, err
}

// Register adds the service to which other peers report refusals and sessions.
func (f *AuditForwarder) Register(s grpc.ServiceRegistrar) {
	internalv1.RegisterAuditForwarderServer(s, f)
}
