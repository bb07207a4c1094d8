package executor

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Cancel asks for every active run to be canceled and waits until all have ended, or ctx has. It is
// for a graceful stop that has no other peer to hand the runs over to (bare-metal API §Context
// lifecycle; docs/concepts.md), while Run goes on: it ends what a run does to its machine, and puts
// that on record (decision 0008). What is left then is for CancelActive.
func (e *Executor) Cancel(ctx context.Context, why string) error {
	for {
		changed := e.state.Changed()
		if err := e.requestCancel(ctx, why); err != nil { // also of those that have come meanwhile
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

// CancelActive ends every active run as canceled, after Run has returned and while this peer still
// leads.
func (e *Executor) CancelActive(ctx context.Context, why string) error {
	errs := []error{e.requestCancel(ctx, why)}
	view := e.state.View()
	for run := range toCancel(view) {
		_, err := e.proposer.Apply(ctx, &internalv1.Command{FeatureLevel: 1, Epoch: view.Meta().GetEpoch(), Op: &internalv1.Command_AbortRun{
			AbortRun: &internalv1.AbortRun{RunId: run.GetRunId(), Phase: holdfastv1.Run_CANCELED}}})
		errs = append(errs, unlessRefused(err))
	}
	return errors.Join(errs...)
}

// requestCancel records that every active run is to end, where that is not so already. One that is
// pending has ended with that: those come first, or they would take the places of those that end.
func (e *Executor) requestCancel(ctx context.Context, why string) error {
	var errs []error
	for _, phase := range []holdfastv1.Run_Phase{holdfastv1.Run_PENDING, holdfastv1.Run_RUNNING} {
		for run := range toCancel(e.state.View()) {
			if run.GetPhase() != phase || run.GetCancelRequestedAt() != nil {
				continue
			}
			_, err := e.proposer.Apply(ctx, &internalv1.Command{FeatureLevel: 1, Op: &internalv1.Command_CancelRun{
				CancelRun: &internalv1.CancelRun{RunId: run.GetRunId(), Reason: why}}})
			errs = append(errs, unlessRefused(err))
		}
	}
	return errors.Join(errs...)
}

// toCancel returns the active runs but those that are observed: their installers go on, whatever
// becomes of this peer.
func toCancel(v *fsm.View) iter.Seq[*holdfastv1.Run] {
	return func(yield func(*holdfastv1.Run) bool) {
		for run := range v.ActiveRuns() {
			if !run.GetObserved() && !yield(run) {
				return
			}
		}
	}
}

// unlessRefused is the error of a command that was not refused: what is refused has ended by
// itself.
func unlessRefused(err error) error {
	if refused := (*fsm.Error)(nil); errors.As(err, &refused) {
		return nil
	}
	return err
}
