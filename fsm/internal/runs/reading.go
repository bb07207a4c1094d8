package runs

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/fsm/internal/shallow"
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
	run.Wait, run.NextActionAt = shallow.Wait(c.GetWait()), nil
	run.Wait.Kind, run.Wait.Sentence = holdfastv1.Wait_READING, ""
	putWait(t, run)
	return run, nil
}
