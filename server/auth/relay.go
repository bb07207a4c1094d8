package auth

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Peers is how the gate reaches the leader (*cluster.Node).
type Peers interface {
	Leader() (id string, self, ok bool)
	PeerConn(id string) (grpc.ClientConnInterface, error)
}

// Relay takes refusals to the leader, which commits them.
type Relay struct {
	internalv1.UnimplementedAuditRelayServer
	peers  Peers
	commit func(context.Context, *internalv1.RecordDenials) error
}

// NewRelay returns a relay. Commit is called on the leader.
func NewRelay(peers Peers, commit func(context.Context, *internalv1.RecordDenials) error) *Relay {
	return &Relay{peers: peers, commit: commit}
}

// Report is Deps.Report.
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
		return fmt.Errorf("tell leader %s: %w", id, err)
	}
	return nil
}

// RecordDenials is called by other peers.
func (r *Relay) RecordDenials(ctx context.Context, d *internalv1.RecordDenials) (*internalv1.RecordDenialsResponse, error) {
	if err := r.commit(ctx, d); err != nil {
		return nil, err
	}
	return &internalv1.RecordDenialsResponse{}, nil
}
