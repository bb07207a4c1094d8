package auth

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Peers is the access of the gate to the leader (*cluster.Node).
type Peers interface {
	Leader() (id string, self, ok bool)
	PeerConn(id string) (grpc.ClientConnInterface, error)
}

// Relay sends refusals to the leader, which commits them.
type Relay struct {
	internalv1.UnimplementedAuditRelayServer
	peers  Peers
	commit func(context.Context, *internalv1.RecordDenials) error
}

// NewRelay returns a relay. The leader calls commit.
func NewRelay(peers Peers, commit func(context.Context, *internalv1.RecordDenials) error) *Relay {
	return &Relay{peers: peers, commit: commit}
}

// Report implements Deps.Report.
func (r *Relay) Report(ctx context.Context, d *internalv1.RecordDenials) error {
	id, self, ok := r.peers.Leader()
	switch {
	case !ok:
		return errors.New("no leader is known")
	case self:
		return r.commit(ctx, d)
	}
	conn, err := r.peers.PeerConn(id)
	if err != nil {
		return err
	}
	if _, err := internalv1.NewAuditRelayClient(conn).RecordDenials(ctx, d); err != nil {
		return fmt.Errorf("report to leader %s: %w", id, err)
	}
	return nil
}

// RecordDenials commits the refusals of another peer.
func (r *Relay) RecordDenials(
	ctx context.Context, d *internalv1.RecordDenials,
) (*internalv1.RecordDenialsResponse, error) {
	if err := r.commit(ctx, d); err != nil {
		return nil, err
	}
	return &internalv1.RecordDenialsResponse{}, nil
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
	relay := NewRelay(node, func(ctx context.Context, d *internalv1.RecordDenials) error {
		_, err := node.Apply(ctx, &internalv1.Command{
			Time:      timestamppb.Now(),
			Principal: "system",
			Op:        &internalv1.Command_RecordDenials{RecordDenials: d},
		})
		return err
	})
	g, err := New(cfg, Deps{
		Records: func() Records { return state.View() },
		Fresh: func(ctx context.Context) (Records, error) {
			v, err := node.View(cluster.WithConsistency(ctx, cluster.Consistency{}))
			if err != nil {
				return nil, err
			}
			return v, nil
		},
		Report: relay.Report,
	})
	return g, relay, err
}

// Register adds the service to which other peers report refusals.
func (r *Relay) Register(s grpc.ServiceRegistrar) { internalv1.RegisterAuditRelayServer(s, r) }
