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

// Peers is the access of the gate to the leader (*cluster.Node).
type Peers interface {
	Leader() (id string, self, ok bool)
	PeerConn(id string) (grpc.ClientConnInterface, error)
}

// Relay sends refusals and new sessions to the leader, which commits them.
type Relay struct {
	internalv1.UnimplementedAuditRelayServer
	peers  Peers
	commit func(context.Context, *internalv1.Command) error
}

// NewRelay returns a relay. The leader calls commit.
func NewRelay(peers Peers, commit func(context.Context, *internalv1.Command) error) *Relay {
	return &Relay{peers: peers, commit: commit}
}

// leader returns the connection to the leader, or nil if this peer leads.
func (r *Relay) leader() (grpc.ClientConnInterface, error) {
	id, self, ok := r.peers.Leader()
	switch {
	case !ok:
		return nil, errors.New("no leader is known")
	case self:
		return nil, nil
	}
	return r.peers.PeerConn(id)
}

// Report implements Deps.Report.
func (r *Relay) Report(ctx context.Context, d *internalv1.RecordDenials) error {
	leader, err := r.leader()
	switch {
	case err != nil:
	case leader == nil:
		_, err = r.RecordDenials(ctx, d)
	default:
		_, err = internalv1.NewAuditRelayClient(leader).RecordDenials(ctx, d)
	}
	if err != nil {
		return fmt.Errorf("report to the leader: %w", err)
	}
	return nil
}

// Note implements Deps.Note.
func (r *Relay) Note(ctx context.Context, n *internalv1.NoteSessions) error {
	leader, err := r.leader()
	switch {
	case err != nil:
	case leader == nil:
		_, err = r.NoteSessions(ctx, n)
	default:
		_, err = internalv1.NewAuditRelayClient(leader).NoteSessions(ctx, n)
	}
	if err != nil {
		return fmt.Errorf("note sessions at the leader: %w", err)
	}
	return nil
}

// RecordDenials commits the refusals of another peer.
func (r *Relay) RecordDenials(
	ctx context.Context, d *internalv1.RecordDenials,
) (*internalv1.RecordDenialsResponse, error) {
	err := r.commit(ctx, &internalv1.Command{Op: &internalv1.Command_RecordDenials{RecordDenials: d}})
	return &internalv1.RecordDenialsResponse{}, err
}

// NoteSessions commits the new sessions of another peer.
func (r *Relay) NoteSessions(
	ctx context.Context, n *internalv1.NoteSessions,
) (*internalv1.NoteSessionsResponse, error) {
	err := r.commit(ctx, &internalv1.Command{Op: &internalv1.Command_NoteSessions{NoteSessions: n}})
	return &internalv1.NoteSessionsResponse{}, err
}

// Node is the peer that a gate protects (*cluster.Node).
type Node interface {
	Peers
	Apply(ctx context.Context, cmd *internalv1.Command) (fsm.Result, error)
	View(ctx context.Context) (*fsm.View, error)
}

// State is this peer's own copy of the replicated state (*fsm.FSM).
type State interface {
	View() *fsm.View
}

// ForNode returns the gate of a peer and its relay. The caller must register the relay
// and run the gate's Denials.
func ForNode(cfg Config, node Node, state State) (*Gate, *Relay, error) {
	relay := NewRelay(node, func(ctx context.Context, c *internalv1.Command) error {
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
		Report:  relay.Report,
		Note:    relay.Note,
		Session: func(id string) (*holdfastv1.Session, bool) { return state.View().Session(id) },
	})
	return g, relay, err
}

// Register adds the service to which other peers report refusals and sessions.
func (r *Relay) Register(s grpc.ServiceRegistrar) { internalv1.RegisterAuditRelayServer(s, r) }
