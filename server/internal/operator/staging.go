package operator

import (
	"runtime"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
)

// Stage implements StageService, with which the leader makes the other peers read a staged
// snapshot.
type Stage struct {
	internalv1.UnimplementedStageServiceServer
	*edge.Peer
}

// NewStage returns the service of a peer.
func NewStage(peer *edge.Peer) *Stage { return &Stage{Peer: peer} }

// ReadStage reads the staged snapshot, and keeps it in memory until it is restored or the
// leader ends the call.
func (s *Stage) ReadStage(
	r *internalv1.ReadStageRequest, stream grpc.ServerStreamingServer[internalv1.ReadStageResponse],
) error {
	ctx := stream.Context()
	v, err := s.Cluster.View(ctx)
	if err != nil {
		return err
	}
	// failpoint: stage-to-read
	b, refusal := v.ReadStage(r.GetRestoreId(), r.GetChunks())
	if refusal != nil {
		return refusal
	}
	defer runtime.KeepAlive(b)
	if err := stream.Send(&internalv1.ReadStageResponse{}); err != nil {
		return err
	}
	for mark := any(nil); ; {
		changed := s.State.Changed()
		if v := s.State.View(); v.StagedMark() != mark { // rare: most entries do not change the stage
			if v.Staged() != r.GetRestoreId() {
				return nil
			}
			mark = v.StagedMark()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-s.Draining:
			return edge.ErrDraining
		}
	}
}
