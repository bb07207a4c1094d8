package server

import (
	"context"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// clusterService is ClusterService.
type clusterService struct {
	holdfastv1.UnimplementedClusterServiceServer
	*Server
}

// GetClusterStatus answers from this peer, quorum or not.
func (s *clusterService) GetClusterStatus(ctx context.Context, _ *holdfastv1.GetClusterStatusRequest) (*holdfastv1.ClusterStatus, error) {
	return s.node.Status(ctx), nil
}
