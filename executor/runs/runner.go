package runs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/executor/step"
	"github.com/holdfast-metal/holdfast/executor/task"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"

	"github.com/holdfast-metal/holdfast/internal/wait"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

var (
	errRunOver  = errors.New("run has ended")
	errPlanHeld = errors.New("plan is held")
)

// runner drives one run in one term.
type runner struct {
	*term
	line       line
	id         string
	concurrent bool            // the run is a console
	place      int             // position in the queue, if it was queued
	entered    bool            // it holds a place of the turnstile
	run        *holdfastv1.Run // as of the begin of the attempt
	plan       *holdfastv1.Plan
	whole      context.Context // ends with the term
	live       context.Context // ends with the term, or when the run is canceled
	cancel     context.CancelCauseFunc
	out        *runLog
	log        *slog.Logger
}

func newRunner(ctx context.Context, t *term, w waiting, at line) *runner {
	run := w.run
	r := &runner{
		term:       t,
		line:       at,
		id:         run.GetRunId(),
		concurrent: run.GetConcurrent(),
		place:      w.place,
	}
	r.log = t.cfg.Logger.With("run", r.id, "machine", run.GetMachineId(), "request_id", run.GetRequestId())
	r.whole = ctx
	r.live, r.cancel = context.WithCancelCause(ctx)
	return r
}

// drive executes the run until it ends. It returns nil if the run has ended, or if it may
// not begin because its plan was held after the run left the queue.
func (r *runner) drive(ctx context.Context) (err error) {
	defer r.recoverPanic(ctx, &err)
	if run, _ := r.state.View().Run(r.id); inAttempt(run) {
		// No effect of the earlier leader that left the attempt open may arrive after this.
		if err := r.fence.Await(ctx); err != nil {
			return err
		}
	}
	view := r.state.View()
	run, ok := view.Run(r.id)
	if !ok || fsm.Ended(run) {
		return nil
	}
	plan, ok := view.Plan(run.GetPlanId())
	if !ok {
		err := r.giveUp(ctx, "PlanMissing", "plan "+run.GetPlanId()+" does not exist")
		if errors.Is(err, errRunOver) {
			return nil
		}
		return err
	}
	r.run, r.plan = run, plan
	r.out = r.logs.add(r.id, fsm.OwnLogBytes(run))
	if run.GetCancelRequestedAt() != nil {
		r.cancel(step.ErrCanceled)
	}
	for !fsm.Ended(r.run) {
		run, err := r.step(ctx)
		switch {
		case errors.Is(err, errRunOver), errors.Is(err, errPlanHeld):
			return nil
		case errors.Is(err, step.ErrCanceled):
			return r.abort(ctx, holdfastv1.Run_CANCELED, nil)
		case identityConflict(err) != nil:
			return r.abort(ctx, holdfastv1.Run_FAILED, &holdfastv1.RunError{
				Reason: "IdentityConflict", Step: r.run.GetCurrentStep(), Message: identityConflict(err).Message,
			})
		case task.NeverTaken(err): // the next leader would fail alike: end this run, and keep the others running
			r.log.Error("cannot record the result of a step, its run fails",
				"step", r.run.GetCurrentStep(), "error", err)
			return r.abort(ctx, holdfastv1.Run_FAILED, &holdfastv1.RunError{
				Reason:  "NotRecorded",
				Step:    r.run.GetCurrentStep(),
				Message: "cannot record the result of the step, check the machine: " + task.Truncate(task.MaxText, err.Error()),
			})
		case err != nil:
			return err
		}
		r.run = run
	}
	r.log.Info("run ended", "phase", r.run.GetPhase(), "error", r.run.GetError().GetMessage())
	return nil
}

// recoverPanic is deferred by drive: a panic of a provider or step fails only this run. Without it
// the process would end, and so would each next leader.
func (r *runner) recoverPanic(ctx context.Context, err *error) {
	p := recover()
	if p == nil {
		return
	}
	r.log.Error("step panicked, its run fails",
		"step", r.run.GetCurrentStep(), "panic", p, "stack", string(debug.Stack()))
	message := fmt.Sprintf("do step %s: a defect in Holdfast or its provider: %v: "+
		"check the machine; the stack is in the log of the leader", r.run.GetCurrentStep(), p)
	*err = r.abort(ctx, holdfastv1.Run_FAILED, &holdfastv1.RunError{
		Reason:  "Panicked",
		Step:    r.run.GetCurrentStep(),
		Message: task.Truncate(task.MaxText, message),
	})
}

// proposeRun commits a command about a run and returns the run after it. errRunOver,
// step.ErrCanceled and errPlanHeld are the refusals that a runner expects.
func (t *term) proposeRun(ctx context.Context, cmd *internalv1.Command) (*holdfastv1.Run, error) {
	res, err := task.Propose(ctx, t.proposer, t.epoch, cmd)
	if refused, ok := errors.AsType[*fsm.Error](err); ok {
		switch refused.Reason {
		case fsm.ReasonRunFinished:
			return nil, errRunOver
		case fsm.ReasonCancelRequested:
			return nil, step.ErrCanceled
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

// identityConflict returns the refusal of a step that would erase a machine that may be another
// one, or nil.
func identityConflict(err error) *fsm.Error {
	if refused, ok := errors.AsType[*fsm.Error](err); ok && refused.Reason == fsm.ReasonIdentity {
		return refused
	}
	return nil
}

// abort ends the run between attempts.
func (r *runner) abort(ctx context.Context, phase holdfastv1.Run_Phase, why *holdfastv1.RunError) error {
	_, err := r.proposeRun(ctx, &internalv1.Command{Op: &internalv1.Command_AbortRun{
		AbortRun: &internalv1.AbortRun{RunId: r.id, Phase: phase, Error: why}}})
	// failpoint: run-aborted
	if errors.Is(err, errRunOver) {
		return nil
	}
	return err
}

// giveUp fails the run for a reason that no retry can fix. It returns errRunOver once
// that is committed.
func (r *runner) giveUp(ctx context.Context, reason, message string) error {
	if err := r.abort(ctx, holdfastv1.Run_FAILED, &holdfastv1.RunError{Reason: reason, Message: message}); err != nil {
		return err
	}
	return errRunOver
}

// step executes one attempt of the current step: a new attempt, or the open one of an
// earlier leader.
func (r *runner) step(ctx context.Context) (*holdfastv1.Run, error) {
	status, current := r.current()
	if current == nil {
		return nil, r.giveUp(ctx, "PlanMissing", "plan "+r.plan.GetPlanId()+" has no step "+r.run.GetCurrentStep())
	}
	machine, ok := r.state.View().Machine(r.run.GetMachineId())
	if !ok {
		return nil, r.giveUp(ctx, "MachineMissing", "machine "+r.run.GetMachineId()+" does not exist")
	}
	a := r.attempt(status, current, machine)
	err := r.waitForRetry(status)
	if err == nil && a.adopted == nil {
		err = r.enter(r.live) //nolint:contextcheck // live ends with the term, or if the run is canceled
	}
	switch {
	case errors.Is(err, step.ErrCanceled):
		return a.cleanup(ctx)
	case err != nil:
		return nil, err
	}
	return a.make(ctx)
}

// attempt returns the next attempt of a step, or the open one of an earlier leader.
func (r *runner) attempt(
	status *holdfastv1.StepStatus, current *holdfastv1.Step, machine *holdfastv1.Machine,
) *attempt {
	a := &attempt{runner: r}
	last := lastAttempt(status)
	number := last.GetNumber() + 1
	if last != nil && fsm.Open(last) {
		number, a.adopted = last.GetNumber(), last
	}
	a.Attempt = &step.Attempt{
		Env:      a,
		Log:      a,
		Logger:   r.log,
		Config:   r.cfg.Config,
		State:    r.state,
		Run:      r.run,
		Plan:     r.plan,
		Step:     current,
		Status:   status,
		Kind:     fsm.KindOf(current),
		Machine:  machine,
		Op:       providers.Op{RunID: r.id, Step: current.GetName(), Epoch: r.epoch, Attempt: number},
		Adopted:  a.adopted != nil,
		Term:     r.whole,
		Life:     r.live,
		Consoles: r.consoles,
		Turns:    r.turns,
		Instance: r.line.provider,
		Stagger:  r.providers.PowerOn(r.line.provider),
	}
	return a
}

// cleanup cleans up after an earlier leader if the run was canceled meanwhile. It ends effects that
// are still in progress and then the attempt, so that the record shows the effects on the machine.
// It returns step.ErrCanceled if there was nothing to clean up.
func (a *attempt) cleanup(ctx context.Context) (*holdfastv1.Run, error) {
	if p, err := a.runner.providers.Of(a.Machine); err == nil { // without a provider the run ends all the same
		a.Provider = p
		if err := a.Cleanup(ctx); err != nil {
			return nil, err
		}
	}
	switch {
	case a.Began.IsZero(): // there was no intent
		return nil, step.ErrCanceled
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case a.Broken != nil:
		return nil, a.Broken
	}
	return a.conclude(ctx, false, step.ErrCanceled)
}

func (r *runner) current() (*holdfastv1.StepStatus, *holdfastv1.Step) {
	planned := r.plan.GetSteps()
	for i, s := range r.run.GetSteps() {
		if s.GetName() == r.run.GetCurrentStep() && i < len(planned) && planned[i].GetName() == s.GetName() {
			return s, planned[i]
		}
	}
	return nil, nil
}

// waitForRetry blocks until the recorded time of the next retry.
func (r *runner) waitForRetry(s *holdfastv1.StepStatus) error {
	if last := lastAttempt(s); last != nil && !fsm.Open(last) {
		if at := r.run.GetNextActionAt(); at != nil {
			// The wall clock may have jumped, so wait at most as long as a retry can be delayed.
			if err := wait.Sleep(r.live, min(time.Until(at.AsTime()), r.cfg.RetryMax)); err != nil {
				return r.whyEnded(err)
			}
		}
	}
	if err := r.live.Err(); err != nil {
		return r.whyEnded(err)
	}
	return nil
}

// whyEnded returns step.ErrCanceled if the run was canceled, and otherwise err: the term has ended.
func (r *runner) whyEnded(err error) error {
	if errors.Is(context.Cause(r.live), step.ErrCanceled) {
		return step.ErrCanceled
	}
	return err
}

func at(t time.Time) *timestamppb.Timestamp { return timestamppb.New(t) }

// inAttempt reports whether an attempt of the run is open.
func inAttempt(run *holdfastv1.Run) bool {
	return slices.ContainsFunc(run.GetSteps(), func(s *holdfastv1.StepStatus) bool {
		last := lastAttempt(s)
		return last != nil && fsm.Open(last)
	})
}

// lastAttempt returns the last attempt of a step, or nil.
func lastAttempt(s *holdfastv1.StepStatus) *holdfastv1.Attempt {
	if n := len(s.GetAttempts()); n > 0 {
		return s.GetAttempts()[n-1]
	}
	return nil
}
