package server

import (
	"context"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// clusterService implements ClusterService.
type clusterService struct {
	holdfastv1.UnimplementedClusterServiceServer
	*Server
}

// GetClusterStatus returns the status of the cluster as this peer sees it. It works
// without a quorum.
func (s *clusterService) GetClusterStatus(
	ctx context.Context, _ *holdfastv1.GetClusterStatusRequest,
) (*holdfastv1.ClusterStatus, error) {
	return s.node.Status(ctx), nil
}
