package runs

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/fleet"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	"github.com/holdfast-metal/holdfast/fsm/internal/limits"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/fsm/internal/sessions"
	"github.com/holdfast-metal/holdfast/fsm/internal/shallow"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// ReasonRunObserved is the reason for refusing executor commands for an observed run.
const ReasonRunObserved = "RUN_OBSERVED"

// activeStep returns a run and the step it is at, which the caller may change, as it may
// change the last attempt of the step. All other parts of the run are shared. Executor
// commands name both, so that a command that was proposed before another change is refused.
func activeStep(t *core.Tx, runID, step string) (*holdfastv1.Run, *holdfastv1.StepStatus, *refusal.Error) {
	run, ok := t.Runs.Get(runID)
	if !ok {
		return nil, nil, NotFound(runID)
	}
	if lifecycle.Ended(run) {
		return nil, nil, runFinished(run)
	}
	if run.GetObserved() {
		return nil, nil, refusal.New(refusal.FailedPrecondition, ReasonRunObserved,
			"run %s is observed: its installer's reports advance it, not the executor", runID)
	}
	if run.GetCurrentStep() != step {
		return nil, nil, refusal.New(refusal.Aborted, refusal.ReasonAttemptMismatch, "run %s is at step %q, not %q",
			runID, run.GetCurrentStep(), step)
	}
	for i, s := range run.GetSteps() {
		if s.GetName() == step {
			run, s = shallow.Run(run), shallow.Step(s)
			run.Steps = slices.Clone(run.Steps)
			run.Steps[i] = s
			if n := len(s.Attempts); n > 0 {
				s.Attempts = slices.Clone(s.Attempts)
				s.Attempts[n-1] = shallow.Attempt(s.Attempts[n-1])
			}
			return run, s, nil
		}
	}
	return nil, nil, refusal.New(refusal.Aborted, refusal.ReasonAttemptMismatch, "run %s has no step %q", runID, step)
}

// checkErases refuses the attempt of a step that erases a machine that may be another one.
func checkErases(t *core.Tx, plan *holdfastv1.Plan, run *holdfastv1.Run, step *holdfastv1.StepStatus) *refusal.Error {
	m, ok := t.Machines.Get(run.GetMachineId())
	if !ok || !erasesDisks(plan, run, step) {
		return nil
	}
	return fleet.CheckIdentity(t.State, m)
}

// BeginAttempt records the intent. An open attempt can only be adopted by a later leader.
func BeginAttempt(t *core.Tx, c *internalv1.BeginAttempt) (*holdfastv1.Run, *refusal.Error) {
	run, step, err := activeStep(t, c.GetRunId(), c.GetStep())
	if err != nil {
		return nil, err
	}
	last, msg := lifecycle.LastAttempt(step), ""
	// A later leader may adopt an open attempt of a canceled run, because it must be recorded
	// which leader cleans up on the host.
	if run.GetCancelRequestedAt() != nil && !lifecycle.Open(last) {
		return nil, refusal.New(refusal.FailedPrecondition, refusal.ReasonCancelRequested,
			"run %s is being canceled: no attempt begins", run.GetRunId())
	}
	// A held plan does not stop runs that have begun, because they may be in the middle of an
	// effect.
	plan, _ := t.Plans.Get(run.GetPlanId())
	if held := heldBy(t.State, plan, run); held != nil && run.GetPhase() == holdfastv1.Run_PENDING {
		return nil, refusal.New(refusal.FailedPrecondition, refusal.ReasonPlanHeld,
			"run %s must not begin yet: the %s of plan %s holds it%s",
			run.GetRunId(), held.GetKind(), held.GetSubject(), suffix(held.GetCause()))
	}
	if !lifecycle.Open(last) {
		if err := checkErases(t, plan, run, step); err != nil {
			return nil, err
		}
	}
	began := beganAt(t, run, last, c)
	switch {
	case lifecycle.Open(last) && c.GetAttempt() == last.GetNumber() &&
		last.GetEpochs()[len(last.GetEpochs())-1] < t.Command.GetEpoch():
		adopt(t, run, step, last, c)
		msg = fmt.Sprintf("step %s: attempt %d adopted by the leader of term %d",
			step.GetName(), last.GetNumber(), t.Command.GetEpoch())
	case !lifecycle.Open(last) && c.GetAttempt() == last.GetNumber()+1:
		step.Attempts = append(step.Attempts, &holdfastv1.Attempt{
			Number:         c.GetAttempt(),
			Epochs:         []uint64{t.Command.GetEpoch()},
			StartedAt:      began,
			EvidenceBefore: c.GetEvidenceBefore(),
		})
		step.RetryCount = c.GetAttempt() - 1
		msg = fmt.Sprintf("step %s: attempt %d begins", step.GetName(), c.GetAttempt())
	default:
		return nil, refusal.New(refusal.Aborted, refusal.ReasonAttemptMismatch,
			"attempt %d of step %q of run %s cannot begin: the last one is %d (%s)",
			c.GetAttempt(), step.GetName(), run.GetRunId(), last.GetNumber(), last.GetOutcome())
	}
	if run.GetPhase() == holdfastv1.Run_PENDING {
		restartRamp(t, run)
		run.Phase, run.StartedAt = holdfastv1.Run_RUNNING, began
		fleet.ForgetFailedInstalls(t, run)
	}
	if step.GetState() == holdfastv1.StepStatus_WAITING {
		step.State, step.StartedAt = holdfastv1.StepStatus_RUNNING, began
	}
	Await(t, run, &holdfastv1.Wait{Kind: holdfastv1.Wait_STEP, Subject: step.GetKind()})
	run.Deadline, run.NextActionAt = shownDeadline(lifecycle.LastAttempt(step), c), c.GetNextActionAt()
	PutRun(t, run, msg)
	return run, nil
}

// suffix returns a cause as the end of a text.
func suffix(cause string) string {
	if cause == "" {
		return ""
	}
	return ": " + cause
}

// maxReading bounds how long before its intent an attempt may have begun.
const maxReading = 10 * time.Minute

// beganAt returns when an attempt began: it reads the machine before its intent is committed, which
// can take long. It did not begin before the run was created, or the last attempt ended.
func beganAt(
	t *core.Tx, run *holdfastv1.Run, last *holdfastv1.Attempt, c *internalv1.BeginAttempt,
) *timestamppb.Timestamp {
	read := min(max(0, time.Duration(min(c.GetReadingMs(), maxReading.Milliseconds()))*time.Millisecond), maxReading)
	began := timestamppb.New(t.Now.AsTime().Add(-read))
	for _, not := range []*timestamppb.Timestamp{run.GetCreatedAt(), last.GetFinishedAt()} {
		if not != nil && lifecycle.Before(began, not) {
			began = not
		}
	}
	return began
}

// OpenAttempt returns the run, step and attempt of a progress note or an outcome. Only the
// leader that last began or adopted the attempt may report them.
func OpenAttempt(
	t *core.Tx, runID, stepName string, number int32,
) (*holdfastv1.Run, *holdfastv1.StepStatus, *holdfastv1.Attempt, *refusal.Error) {
	run, step, err := activeStep(t, runID, stepName)
	if err != nil {
		return nil, nil, nil, err
	}
	a := lifecycle.LastAttempt(step)
	if !lifecycle.Open(a) || a.GetNumber() != number || a.GetEpochs()[len(a.GetEpochs())-1] != t.Command.GetEpoch() {
		return nil, nil, nil, refusal.New(refusal.Aborted, refusal.ReasonAttemptMismatch,
			"attempt %d of step %q of run %s is not open in epoch %d",
			number, stepName, runID, t.Command.GetEpoch())
	}
	return run, step, a, nil
}

// NoteProgress records the evidence and the wait of an open attempt.
func NoteProgress(t *core.Tx, c *internalv1.NoteProgress) (*holdfastv1.Run, *refusal.Error) {
	run, _, a, err := OpenAttempt(t, c.GetRunId(), c.GetStep(), c.GetAttempt())
	if err != nil {
		return nil, err
	}
	if err := appendLog(t, run, c.GetLog()); err != nil {
		return nil, err
	}
	mergeEvidence(a, c.GetEvidence())
	observedWait(t, run, c.GetWait())
	run.NextActionAt = c.GetNextActionAt()
	putWait(t, run)
	return run, nil
}

// mergeEvidence adds evidence to that of an attempt. Beyond the limit, only known keys change.
func mergeEvidence(a *holdfastv1.Attempt, seen map[string]string) {
	if len(seen) == 0 {
		return
	}
	all := make(map[string]string, len(a.GetEvidenceAfter())+len(seen))
	maps.Copy(all, a.GetEvidenceAfter())
	keys := slices.AppendSeq(make([]string, 0, len(seen)), maps.Keys(seen)) // one allocation
	slices.Sort(keys)
	for _, k := range keys {
		if _, known := all[k]; known || len(all) < limits.Evidence {
			all[k] = seen[k]
		}
	}
	a.EvidenceAfter = all
}

// EndAttempt records the outcome of an attempt and derives the new state of the step, the run
// and the machine (docs/concepts.md).
func EndAttempt(t *core.Tx, c *internalv1.EndAttempt) (*holdfastv1.Run, *refusal.Error) {
	if c.GetOutcome() == holdfastv1.Attempt_OUTCOME_UNSPECIFIED {
		return nil, refusal.InvalidField("outcome", "is required")
	}
	run, step, a, err := OpenAttempt(t, c.GetRunId(), c.GetStep(), c.GetAttempt())
	if err != nil {
		return nil, err
	}
	if err := appendLog(t, run, c.GetLog()); err != nil {
		return nil, err
	}
	mergeEvidence(a, c.GetEvidenceAfter())
	a.Outcome, a.FinishedAt, a.Error, a.ErrorClass = c.GetOutcome(), t.Now, c.GetError(), c.GetErrorClass()
	run.Deadline = nil
	if step.GetKind() == "repave" {
		// With any outcome, the next step of this run may have to log in.
		if m, ok := fleet.Edit(t, run.GetMachineId()); ok && sessions.HostInstalled(t, m, run) {
			fleet.PutMachine(t, m)
		}
	}
	sessions.CloseInstall(t, run)
	moved := step.GetKind() == "net" && c.GetOutcome() == holdfastv1.Attempt_SUCCEEDED
	if to := a.GetEvidenceAfter()[EvidenceEndpoint]; to != "" && moved {
		moveHost(t, run.GetMachineId(), to)
	}
	step.Message = cmp.Or(c.GetMessage(), c.GetError())
	switch {
	case c.GetOutcome() == holdfastv1.Attempt_SUCCEEDED:
		fleet.StoreHardware(t, run, c.GetInventory())
		notePower(t, run, step, a)
		StepSucceeded(t, run, step)
	case c.GetOutcome() == holdfastv1.Attempt_CANCELED:
		why := canceledError(run)
		step.Message = cmp.Or(step.GetMessage(), why.GetMessage())
		EndStep(t, step, holdfastv1.StepStatus_FAILED)
		FinishRun(t, run, holdfastv1.Run_CANCELED, why)
	case !c.GetPermanent() && a.GetNumber() <= step.GetMaxRetries():
		if m, ok := fleet.Edit(t, run.GetMachineId()); ok && step.GetKind() == "repave" {
			fleet.NoteFailedInstall(m, a.GetNumber(), c.GetError())
			fleet.PutMachine(t, m)
		}
		Await(t, run, &holdfastv1.Wait{Kind: holdfastv1.Wait_RETRY, Subject: step.GetName(), Number: a.GetNumber()})
		run.NextActionAt = c.GetRetryAt()
		PutRun(t, run, fmt.Sprintf("step %s: attempt %d failed: %s", step.GetName(), a.GetNumber(), c.GetError()))
	default:
		EndStep(t, step, holdfastv1.StepStatus_FAILED)
		FinishRun(t, run, holdfastv1.Run_FAILED, &holdfastv1.RunError{Reason: "StepFailed", Message: c.GetError(),
			Step: step.GetName(), Attempt: a.GetNumber(), ErrorClass: c.GetErrorClass()})
	}
	return run, nil
}

// EndStep moves a step to a terminal state. The caller stores the run.
func EndStep(t *core.Tx, s *holdfastv1.StepStatus, state holdfastv1.StepStatus_State) {
	s.State, s.FinishedAt = state, t.Now
	if s.GetStartedAt() == nil {
		s.StartedAt = t.Now
	}
}

// StepSucceeded ends a step, and begins the next one or ends the run.
func StepSucceeded(t *core.Tx, run *holdfastv1.Run, step *holdfastv1.StepStatus) {
	EndStep(t, step, holdfastv1.StepStatus_SUCCEEDED)
	for _, next := range run.GetSteps() {
		if next.GetState() == holdfastv1.StepStatus_WAITING {
			run.CurrentStep = next.GetName()
			Await(t, run, &holdfastv1.Wait{Kind: holdfastv1.Wait_TURNSTILE, Subject: next.GetName()})
			run.NextActionAt = t.Now
			PutRun(t, run, fmt.Sprintf("step %s succeeded", step.GetName()))
			return
		}
	}
	FinishRun(t, run, holdfastv1.Run_SUCCEEDED, nil)
}
