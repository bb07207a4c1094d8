package runs

import (
	"fmt"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// NoteReading records that the next attempt has not begun because the machine is still being read.
// The run's phase stays, so a held plan and a cancel still stop it before its first effect.
func NoteReading(t *core.Tx, c *internalv1.NoteReading) (*holdfastv1.Run, *refusal.Error) {
	run, step, err := activeStep(t, c.GetRunId(), c.GetStep())
	if err != nil {
		return nil, err
	}
	last := lifecycle.LastAttempt(step)
	switch {
	case run.GetCancelRequestedAt() != nil:
		return nil, refusal.New(refusal.FailedPrecondition, refusal.ReasonCancelRequested,
			"run %s is being canceled: no attempt begins", run.GetRunId())
	case lifecycle.Open(last) || c.GetAttempt() != last.GetNumber()+1:
		return nil, refusal.New(refusal.Aborted, refusal.ReasonAttemptMismatch,
			"attempt %d of step %q of run %s is not the next one: the last one is %d (%s)",
			c.GetAttempt(), step.GetName(), run.GetRunId(), last.GetNumber(), last.GetOutcome())
	}
	run.WaitingFor, run.WaitingSince = c.GetWaitingFor(), c.GetSince()
	run.Deadline, run.NextActionAt = c.GetDeadline(), nil
	PutRun(t, run, fmt.Sprintf("step %s: waiting for %s", step.GetName(), run.GetWaitingFor()))
	return run, nil
}
