package runs

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Cancel requests the cancellation of every active run and blocks until all have ended,
// or until ctx ends. It is for a graceful stop without another peer to take over
// (docs/concepts.md). Run must still be running: it ends the effects of each run on its
// machine, and records the outcome (decision 0008). CancelActive ends the rest.
func (e *Executor) Cancel(ctx context.Context, why string) error {
	for {
		changed := e.state.Changed()
		if err := e.requestCancel(ctx, why); err != nil { // also for runs that were started meanwhile
			return err
		}
		left := false
		for range toCancel(e.state.View()) {
			left = true
			break
		}
		if !left {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for canceled runs to end: %w", ctx.Err())
		}
	}
}

// CancelActive ends every active run as canceled. It is called after Run has returned,
// while this peer still leads.
func (e *Executor) CancelActive(ctx context.Context, why string) error {
	errs := []error{e.requestCancel(ctx, why)}
	view := e.state.View()
	for run := range toCancel(view) {
		_, err := e.proposer.Apply(ctx, &internalv1.Command{
			Epoch: view.Meta().GetEpoch(),
			Op: &internalv1.Command_AbortRun{
				AbortRun: &internalv1.AbortRun{RunId: run.GetRunId(), Phase: holdfastv1.Run_CANCELED},
			},
		})
		errs = append(errs, unlessRefused(err))
	}
	return errors.Join(errs...)
}

// requestCancel records a cancel request for every active run that has none. Pending runs
// end at once. They come first, so that they do not begin in place of the runs that end.
func (e *Executor) requestCancel(ctx context.Context, why string) error {
	var errs []error
	for _, phase := range []holdfastv1.Run_Phase{holdfastv1.Run_PENDING, holdfastv1.Run_RUNNING} {
		for run := range toCancel(e.state.View()) {
			if run.GetPhase() != phase || run.GetCancelRequestedAt() != nil {
				continue
			}
			_, err := e.proposer.Apply(ctx, &internalv1.Command{Op: &internalv1.Command_CancelRun{
				CancelRun: &internalv1.CancelRun{RunId: run.GetRunId(), Reason: why}}})
			errs = append(errs, unlessRefused(err))
		}
	}
	return errors.Join(errs...)
}

// toCancel returns the active runs except observed ones: their installers continue
// without this peer.
func toCancel(v *fsm.View) iter.Seq[*holdfastv1.Run] {
	return func(yield func(*holdfastv1.Run) bool) {
		for run := range v.ActiveRuns() {
			if !run.GetObserved() && !yield(run) {
				return
			}
		}
	}
}

// unlessRefused returns err unless the FSM refused the command: then the run has already ended.
func unlessRefused(err error) error {
	if _, ok := errors.AsType[*fsm.Error](err); ok {
		return nil
	}
	return err
}
