package executor

import (
	"context"
	"errors"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// CancelActive ends every active run as canceled. It is for a graceful stop that has no other peer to hand the
// runs over to (bare-metal API §Context lifecycle; DESIGN §7), after Run has returned and while this peer still leads.
func (e *Executor) CancelActive(ctx context.Context, why string) error {
	view := e.state.View()
	var errs []error
	for run := range view.ActiveRuns() {
		if run.GetObserved() { // its installer goes on, whatever becomes of this peer
			continue
		}
		_, err := e.proposer.Apply(ctx, &internalv1.Command{FeatureLevel: 1, Op: &internalv1.Command_CancelRun{
			CancelRun: &internalv1.CancelRun{RunId: run.GetRunId(), Reason: why}}})
		if err == nil && run.GetPhase() == holdfastv1.Run_RUNNING {
			_, err = e.proposer.Apply(ctx, &internalv1.Command{FeatureLevel: 1, Epoch: view.Meta().GetEpoch(), Op: &internalv1.Command_AbortRun{
				AbortRun: &internalv1.AbortRun{RunId: run.GetRunId(), Phase: holdfastv1.Run_CANCELED}}})
		}
		var refused *fsm.Error
		if err != nil && !errors.As(err, &refused) { // refused: it has ended by itself
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
