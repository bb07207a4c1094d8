package auth

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Node is the peer that a gate protects (*cluster.Node).
type Node interface {
	Proposer
	Peers
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
