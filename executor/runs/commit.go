package runs

import (
	"context"
	"errors"

	"github.com/holdfast-metal/holdfast/executor/step"
	"github.com/holdfast-metal/holdfast/executor/task"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

var (
	errRunOver  = errors.New("run has ended")
	errPlanHeld = errors.New("plan is held")
)

// proposeRun commits a command about a run and returns the run after it. errRunOver,
// step.ErrCanceled and errPlanHeld are the refusals that a runner expects.
func (t *term) proposeRun(ctx context.Context, cmd *internalv1.Command) (*holdfastv1.Run, error) {
	res, err := task.Propose(ctx, t.proposer, t.epoch, cmd)
	if refused, ok := errors.AsType[*fsm.Error](err); ok {
		switch refused.Reason {
		case fsm.ReasonRunFinished:
			return nil, errRunOver
		case fsm.ReasonCancelRequested:
			return nil, step.ErrCanceled
		case fsm.ReasonPlanHeld:
			return nil, errPlanHeld
		}
	}
	if err != nil {
		return nil, err
	}
	run, _ := res.Value.(*holdfastv1.Run)
	return run, nil
}
