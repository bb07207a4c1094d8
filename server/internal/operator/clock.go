package operator

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
)

// maxClockDifference is the maximum difference between the leader's clock and the time to
// which the clock of the state is reset.
const maxClockDifference = 5 * time.Minute

// ResetClock resets the clock of the state, or only returns the clocks.
func (s *Service) ResetClock(
	ctx context.Context, r *holdfastv1.ResetClockRequest,
) (*holdfastv1.ResetClockResponse, error) {
	v, err := s.Cluster.View(ctx)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	out := &holdfastv1.ResetClockResponse{Before: timestamppb.New(v.Now()), Leader: timestamppb.New(now)}
	if r.GetDryRun() {
		return out, nil
	}
	if d := now.Sub(r.GetTime().AsTime()).Abs(); r.GetTime() == nil || d > maxClockDifference {
		return nil, &fsm.Error{Code: fsm.FailedPrecondition, Reason: "CLOCKS_DIFFER", Message: fmt.Sprintf(
			"reset clock: the leader's clock shows %s, the request %s: "+
				"correct the clock of this machine or the leader first",
			now.UTC().Format(time.RFC3339), r.GetTime().AsTime().Format(time.RFC3339))}
	}
	c := auth.Command(ctx)
	c.Op = &internalv1.Command_ResetClock{ResetClock: &internalv1.ResetClock{To: r.GetTime()}}
	if _, err := s.Cluster.Apply(ctx, c); err != nil {
		return nil, err
	}
	return out, nil
}
