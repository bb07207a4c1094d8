package runs

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// AbortRun ends a run between attempts, with a step that an earlier leader left open.
func AbortRun(t *core.Tx, c *internalv1.AbortRun) (*holdfastv1.Run, *refusal.Error) {
	run, ok := t.Runs.Edit(c.GetRunId())
	switch {
	case !ok:
		return nil, NotFound(c.GetRunId())
	case lifecycle.Ended(run):
		return nil, runFinished(run)
	case run.GetObserved() && c.GetPhase() != holdfastv1.Run_CANCELED:
		return nil, refusal.New(refusal.FailedPrecondition, ReasonRunObserved,
			"run %s is observed: its installer's reports decide whether it fails", run.GetRunId())
	case c.GetPhase() != holdfastv1.Run_FAILED && c.GetPhase() != holdfastv1.Run_CANCELED:
		return nil, refusal.InvalidField("phase", "%s does not abort a run", c.GetPhase())
	case c.GetPhase() == holdfastv1.Run_FAILED && c.GetError() == nil:
		return nil, refusal.InvalidField("error", "is required: a run does not fail without a reason")
	}
	failure := c.GetError()
	if failure == nil {
		failure = canceledError(run)
	}
	CloseSteps(t, run, failure.GetMessage())
	FinishRun(t, run, c.GetPhase(), failure)
	return run, nil
}

// CloseSteps ends the open steps of a run that ends between attempts. It changes the steps.
func CloseSteps(t *core.Tx, run *holdfastv1.Run, why string) {
	for _, s := range run.GetSteps() {
		if s.GetState() != holdfastv1.StepStatus_RUNNING {
			continue
		}
		if a := lifecycle.LastAttempt(s); lifecycle.Open(a) {
			a.Outcome, a.FinishedAt, a.Error = holdfastv1.Attempt_CANCELED, t.Now, why
		}
		s.Message = why
		EndStep(t, s, holdfastv1.StepStatus_FAILED)
	}
}
