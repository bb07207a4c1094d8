package runs

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// An installer that Holdfast has not started may report too. Its install is a run like any
// other, so that PROVISIONING has a run, a log and a reason: type REPAVE, with one step that
// is observed and not executed. Reports open and close its attempts. The executor ignores the
// run, and the executor's commands for it are refused.

// ObservedStep is the step of an observed run.
const ObservedStep = "install"

// LogObserved appends a line to the run's log. The caller stores the run.
func LogObserved(t *core.Tx, run *holdfastv1.Run, line string) {
	chunk := &holdfastv1.LogChunk{
		Ts: t.Now, Stream: "system", Step: ObservedStep, Attempt: int32(len(run.GetSteps()[0].GetAttempts())),
		Data: []byte(line + "\n"),
	}
	_ = appendLog(t, run, &internalv1.LogAppend{
		RunId: run.GetRunId(), Offset: OwnLogBytes(run), Chunks: []*holdfastv1.LogChunk{chunk},
	})
}

// CancelObserved cancels an observed run directly, because no executor drives it.
func CancelObserved(t *core.Tx, run *holdfastv1.Run, why string) {
	if run.GetCancelRequestedAt() == nil {
		run.CancelRequestedAt, run.CancelReason = t.Now, why
	}
	failure := canceledError(run)
	step := run.GetSteps()[0]
	if a := lifecycle.LastAttempt(step); lifecycle.Open(a) {
		a.Outcome, a.FinishedAt, a.Error = holdfastv1.Attempt_CANCELED, t.Now, failure.GetMessage()
	}
	step.Message = failure.GetMessage()
	LogObserved(t, run, failure.GetMessage())
	EndStep(t, step, holdfastv1.StepStatus_FAILED)
	FinishRun(t, run, holdfastv1.Run_CANCELED, failure)
}
