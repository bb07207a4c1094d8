package runs

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// CancelRun ends a pending run, or asks the executor to end a running one.
func CancelRun(t *core.Tx, c *internalv1.CancelRun) (*holdfastv1.Run, *refusal.Error) {
	run, ok := t.Runs.Edit(c.GetRunId())
	switch {
	case !ok:
		return nil, NotFound(c.GetRunId())
	case run.GetPhase() == holdfastv1.Run_CANCELED, run.GetCancelRequestedAt() != nil && !lifecycle.Ended(run):
		return run, nil
	case lifecycle.Ended(run):
		return nil, runFinished(run).With("phase", run.GetPhase().String())
	}
	run.CancelRequestedAt, run.CancelReason = t.Now, c.GetReason()
	if run.GetObserved() {
		CancelObserved(t, run, c.GetReason())
		return run, nil
	}
	if run.GetPhase() == holdfastv1.Run_PENDING {
		FinishRun(t, run, holdfastv1.Run_CANCELED, canceledError(run))
		return run, nil
	}
	Await(t, run, &holdfastv1.Wait{Kind: holdfastv1.Wait_STOP, Subject: run.GetCurrentStep()})
	run.NextActionAt = t.Now
	PutRun(t, run, "cancel requested")
	return run, nil
}

func canceledError(run *holdfastv1.Run) *holdfastv1.RunError {
	msg := "canceled"
	if run.GetCancelReason() != "" {
		msg += ": " + run.GetCancelReason()
	}
	return &holdfastv1.RunError{Reason: "Canceled", Message: msg, Step: run.GetCurrentStep()}
}
