package diagnose

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/scope"
)

// Config configures a Cluster.
type Config struct {
	PeerID   string
	Version  string
	Settings string // the configuration of the peer without secrets
	Gatherer prometheus.Gatherer
	Ready    func() error  // nil if the peer can serve
	Note     func() string // a remark about the peer, or ""
	Issuers  []*holdfastv1.Issuer
}

// Members is the status of the peer and its cluster (*cluster.Peer).
type Members interface {
	Leader() (id string, self, ok bool)
	Role() string
	Status(ctx context.Context) *holdfastv1.ClusterStatus
}

// Cluster implements ClusterService.
type Cluster struct {
	holdfastv1.UnimplementedClusterServiceServer
	*edge.Peer
	cfg     Config
	members Members
}

// NewCluster returns the service of a peer.
func NewCluster(peer *edge.Peer, cfg Config, members Members) *Cluster {
	return &Cluster{Peer: peer, cfg: cfg, members: members}
}

// GetClusterStatus returns the status of the cluster as this peer sees it.
func (s *Cluster) GetClusterStatus(
	ctx context.Context, _ *holdfastv1.GetClusterStatusRequest,
) (*holdfastv1.ClusterStatus, error) {
	return scope.Status(auth.From(ctx), s.members.Status(ctx)), nil
}

// GetIssuers returns the issuers with which people sign in.
func (s *Cluster) GetIssuers(
	context.Context, *holdfastv1.GetIssuersRequest,
) (*holdfastv1.GetIssuersResponse, error) {
	return &holdfastv1.GetIssuersResponse{Issuers: s.cfg.Issuers}, nil
}
