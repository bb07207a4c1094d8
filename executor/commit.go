package executor

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

var (
	errCanceled = errors.New("run was canceled")
	errRunOver  = errors.New("run has ended")
	errPlanHeld = errors.New("plan is held")
)

// propose commits a command of this term. A command that was not applied is retried,
// unless it can never succeed. An unknown outcome is an error that ends the term, because
// the state has to be read again to learn the outcome.
func (t *term) propose(ctx context.Context, cmd *internalv1.Command) (fsm.Result, error) {
	cmd.Epoch = t.epoch
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 250*time.Millisecond) {
		cmd.Time = nil // each proposal gets its own time
		res, err := t.proposer.Apply(ctx, cmd)
		var out *cluster.OutcomeError
		if !errors.As(err, &out) || out.Outcome != cluster.NotApplied || neverTaken(err) {
			return res, err
		}
		if err := sleep(ctx, wait); err != nil {
			return res, err
		}
	}
}

// neverTaken reports whether a command was rejected because of its content: any other
// leader would reject it too.
func neverTaken(err error) bool {
	return errors.Is(err, cluster.ErrTooLarge) || errors.Is(err, cluster.ErrEncoding)
}

// proposeRun commits a command about a run and returns the run after it. errRunOver,
// errCanceled and errPlanHeld are the refusals that a runner expects.
func (t *term) proposeRun(ctx context.Context, cmd *internalv1.Command) (*holdfastv1.Run, error) {
	res, err := t.propose(ctx, cmd)
	var refused *fsm.Error
	if errors.As(err, &refused) {
		switch refused.Reason {
		case fsm.ReasonRunFinished:
			return nil, errRunOver
		case fsm.ReasonCancelRequested:
			return nil, errCanceled
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

// sleep blocks for d. If ctx ends first it returns the error of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
