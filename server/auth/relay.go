package auth

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"

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
