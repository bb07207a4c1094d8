package runs

import (
	"context"
	"time"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/request"
)

// CancelRun cancels a run and waits briefly for it to end. It returns the run as
// CANCELED, or as RUNNING with cancel_requested_at if the current attempt takes longer to
// stop.
func (s *Service) CancelRun(ctx context.Context, r *holdfastv1.CancelRunRequest) (*holdfastv1.Run, error) {
	if err := request.Required("run_id", r.GetRunId()); err != nil {
		return nil, err
	}
	if err := request.Comment("reason", r.GetReason()); err != nil {
		return nil, err
	}
	c := auth.Command(ctx)
	c.Op = &internalv1.Command_CancelRun{CancelRun: &internalv1.CancelRun{RunId: r.GetRunId(), Reason: r.GetReason()}}
	run, err := edge.Apply[*holdfastv1.Run](ctx, s.Cluster, c)
	if err != nil {
		return nil, err
	}
	return readable(s.State.View(), s.awaitEnd(ctx, run)), nil
}

// awaitEnd waits for a run to end, for at most CancelWait, and returns its latest state.
func (s *Service) awaitEnd(ctx context.Context, run *holdfastv1.Run) *holdfastv1.Run {
	timeout := time.NewTimer(s.cfg.CancelWait)
	defer timeout.Stop()
	for !fsm.Ended(run) {
		changed := s.State.Changed()
		if now, ok := s.State.View().Run(run.GetRunId()); ok && now.GetRevision() > run.GetRevision() {
			run = now
			continue
		}
		select {
		case <-changed:
		case <-timeout.C:
			return run
		case <-ctx.Done(): // the cancellation is committed: return it
			return run
		case <-s.Draining:
			return run
		}
	}
	return run
}
