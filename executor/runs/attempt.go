package runs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/executor/fence"
	"github.com/holdfast-metal/holdfast/executor/step"
	"github.com/holdfast-metal/holdfast/executor/task"
	"github.com/holdfast-metal/holdfast/internal/describe"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// attempt is one try of a step. It records the intent and the outcome, and it is the step.Env of
// the action in between.
type attempt struct {
	*step.Attempt
	runner  *runner
	adopted *holdfastv1.Attempt // as an earlier leader began it, or nil
	started time.Time           // when it began, possibly under an earlier leader

	noted   step.Wait // last recorded wait
	notedAt time.Time
	crossed bool // the boundary after the first effect was reached
	slow    *slowReading
}

// make executes the attempt from intent to outcome and returns the run after it.
func (a *attempt) make(ctx context.Context) (*holdfastv1.Run, error) {
	timeout := time.Duration(a.Status.GetTimeoutSeconds()) * time.Second
	if timeout <= 0 {
		timeout = a.Config.StepDeadline
	}
	a.started = time.Now()
	deadline := a.started.Add(timeout)
	if a.adopted != nil {
		if began := a.adopted.GetStartedAt(); began != nil {
			a.started = began.AsTime()
		}
		// An outage must not fail the step: there is always some time left to observe.
		if d := a.Run.GetDeadline(); d != nil && d.AsTime().Before(deadline) {
			deadline = d.AsTime()
			if least := time.Now().Add(a.remainder(timeout)); least.After(deadline) {
				deadline = least
			}
		}
	}
	ctx, life, done := a.traced(ctx)
	defer done()
	attemptCtx, stop := step.Allow(life, deadline)
	defer stop()

	action, err := a.prepare(attemptCtx, min(timeout, step.PrepareTime)) //nolint:contextcheck // it derives from life
	if err != nil {
		action = func(context.Context) error { return err } // recorded as a failed attempt like any other
	} else {
		a.Wait = step.Wait{} // the reading has ended
	}
	a.runner.cfg.Boundary(BeforeIntent, a.Kind)
	if err := a.intend(ctx, deadline); err != nil {
		return nil, err
	}
	a.runner.cfg.Boundary(AfterIntent, a.Kind)
	a.bound(attemptCtx)
	err = action(attemptCtx) //nolint:contextcheck // the same
	if err != nil && attemptCtx.Err() != nil {
		a.AwaitSettle() //nolint:contextcheck // the attempt's context has ended, the term's has not
	}
	if ctx.Err() != nil {
		return nil, ctx.Err() // the term has ended: the attempt stays open for the next leader
	}
	if a.Broken != nil {
		return nil, a.Broken
	}
	if err == nil {
		a.afterEffect()
		a.runner.enterToEnd(attemptCtx) //nolint:contextcheck // the same
	}
	a.runner.cfg.Boundary(AfterEvidence, a.Kind)
	return a.conclude(ctx, attemptCtx.TimedOut(), err)
}

const (
	leastRemainder = 30 * time.Second // minimum time for an adopted attempt to observe
	fairAdoptions  = 8                // number of leaders that may extend an attempt by more than that
)

// remainder returns the minimum time for an adopted attempt if its deadline is near or
// has passed. It is half of the timeout, because the outage may have used the time that
// the step needed. After fairAdoptions leaders it is only leastRemainder. The state bounds
// the time of all leaders together (Attempt.ends_by), so that every attempt ends.
func (a *attempt) remainder(timeout time.Duration) time.Duration {
	least := min(timeout, leastRemainder)
	if time.Until(a.Run.GetDeadline().AsTime()) > least || len(a.adopted.GetEpochs()) >= fairAdoptions {
		return least
	}
	return max(least, timeout/2)
}

// bound ends the attempt early if the state gives it less time than this leader does: its limit
// counts for all leaders together.
func (a *attempt) bound(ctx *step.Allowance) {
	if by := a.recorded().GetEndsBy(); a.adopted != nil && by != nil {
		ctx.Shorten(a.Began.Add(by.AsTime().Sub(a.Run.GetWait().GetSince().AsTime())))
	}
}

// recorded returns the attempt as of the last commit.
func (a *attempt) recorded() *holdfastv1.Attempt {
	for _, s := range a.Run.GetSteps() {
		if s.GetName() == a.Step.GetName() {
			return lastAttempt(s)
		}
	}
	return nil
}

// prepare chooses the provider and the action of the step, and observes the machine before the
// effect.
func (a *attempt) prepare(ctx context.Context, most time.Duration) (func(context.Context) error, error) {
	p, err := a.runner.providers.Of(a.Machine)
	if err != nil {
		return nil, err
	}
	a.Provider = p
	if a.adopted != nil {
		a.Before = a.adopted.GetEvidenceBefore()
		a.AddEvidence(a.adopted.GetEvidenceAfter())
	}
	how, err := a.Choose()
	if err != nil || a.adopted != nil || how.Before == nil {
		return how.Do, err
	}
	a.runner.observing(ctx, func() { err = a.Observe(ctx, how, most, a.noteSlowReading) })
	return how.Do, err
}

// intend commits the intent.
func (a *attempt) intend(ctx context.Context, deadline time.Time) error {
	a.Began, a.noted = time.Now(), step.Wait{}
	begin := &internalv1.BeginAttempt{
		RunId:          a.Op.RunID,
		Step:           a.Step.GetName(),
		Attempt:        a.Op.Attempt,
		Deadline:       at(deadline),
		EvidenceBefore: a.Before,
		NextActionAt:   at(a.Began),
		ReadingMs:      a.Began.Sub(a.started).Milliseconds(),
	}
	if a.adopted != nil {
		begin.ReadingMs = 0 // it began under an earlier leader
	}
	run, err := a.runner.proposeRun(ctx, &internalv1.Command{Op: &internalv1.Command_BeginAttempt{BeginAttempt: begin}})
	if err != nil {
		return err
	}
	// failpoint: intent-committed
	a.runner.leave()
	a.Run = run
	if since := a.recorded().GetEndingSince(); since != nil {
		a.Ending = a.Began.Add(since.AsTime().Sub(run.GetWait().GetSince().AsTime()))
	}
	if a.adopted != nil && step.Presses(a.Kind) {
		a.InFlight.Sent = a.Began
		if !a.Ending.IsZero() { // no leader has pressed since
			a.InFlight.Sent = a.Ending
		}
	}
	if a.adopted != nil {
		a.Say("attempt %d of %s continues under the leader of term %d", a.Op.Attempt, a.Step.GetName(), a.Op.Epoch)
	} else {
		a.Say("attempt %d of %s (%s)", a.Op.Attempt, a.Step.GetName(), a.Kind)
	}
	return nil
}

// Adopt implements step.Env.
func (a *attempt) Adopt(ctx context.Context, most time.Duration) error {
	if !a.Began.IsZero() {
		return nil
	}
	return a.intend(ctx, time.Now().Add(most))
}

// conclude commits the outcome with its evidence and the rest of the log.
func (a *attempt) conclude(ctx context.Context, timedOut bool, failure error) (*holdfastv1.Run, error) {
	end := &internalv1.EndAttempt{
		RunId:         a.Op.RunID,
		Step:          a.Step.GetName(),
		Attempt:       a.Op.Attempt,
		EvidenceAfter: a.Seen,
		Message:       task.Truncate(task.MaxText, a.Message),
		Inventory:     a.Inventory,
	}
	switch {
	case failure == nil:
		end.Outcome = holdfastv1.Attempt_SUCCEEDED
		a.Say("%s succeeded%s", a.Step.GetName(), step.Suffix(a.Message))
	case errors.Is(context.Cause(a.Life), step.ErrCanceled): //nolint:contextcheck // the run's context has the cause of its end
		end.Outcome, end.Error = holdfastv1.Attempt_CANCELED, "canceled while waiting for "+describe.Wait(a.Waiting())
		end.Message = end.GetError()
		a.Say("%s %s", a.Step.GetName(), end.GetError())
	default:
		class := providers.ClassOf(failure)
		if timedOut {
			class = providers.Timeout
			failure = fmt.Errorf("gave up after %s waiting for %s%s%s",
				time.Since(a.started).Round(100*time.Millisecond), describe.Wait(a.Waiting()), step.Cause(failure),
				a.leaders())
		}
		end.Outcome, end.Error, end.ErrorClass = holdfastv1.Attempt_FAILED, task.Truncate(task.MaxText,
			failure.Error()), string(class)
		end.Permanent = permanent(class, a.Status)
		end.RetryAt = at(time.Now().Add(retryAfter(a.runner.cfg.RetryBase, a.runner.cfg.RetryMax, a.Op.Attempt)))
		end.Message = end.GetError()
		a.Say("%s failed: %s", a.Step.GetName(), end.GetError())
		a.Logger.Warn("attempt failed",
			"step", a.Step.GetName(), "attempt", a.Op.Attempt, "class", class, "error", end.GetError())
	}
	a.endSpan(ctx, end.GetOutcome())
	var run *holdfastv1.Run
	appendTo := func(l *internalv1.LogAppend) error { return a.runner.appendLogs(ctx, l) }
	err := a.runner.out.last(appendTo, func(rest *internalv1.LogAppend) error {
		end.Log = rest
		var err error
		// failpoint: evidence-gathered
		run, err = a.runner.proposeRun(ctx, &internalv1.Command{Op: &internalv1.Command_EndAttempt{EndAttempt: end}})
		// failpoint: outcome-committed
		return err
	})
	return run, err
}

// leaders returns the suffix of a text about an attempt that used up its time under several
// leaders.
func (a *attempt) leaders() string {
	if a.Ending.IsZero() {
		return ""
	}
	return fmt.Sprintf(": its time has passed under %d leaders in turn", len(a.recorded().GetEpochs()))
}

// permanent reports whether a retry is pointless or dangerous. BMCs lock an account after
// a few failed logins, so there is only one retry after an authentication error
// (docs/concepts.md).
func permanent(c providers.Class, s *holdfastv1.StepStatus) bool {
	switch c {
	case providers.Unsupported, providers.Gone:
		return true
	case providers.Auth:
		for _, earlier := range s.GetAttempts() {
			if earlier.GetErrorClass() == string(providers.Auth) {
				return true
			}
		}
	}
	return false
}

// retryAfter returns the delay before a retry. It doubles with each attempt, and half of
// it is random, so that runs that failed together do not retry together.
func retryAfter(base, most time.Duration, attempt int32) time.Duration {
	d := base
	for range attempt - 1 {
		if d *= 2; d >= most {
			d = most
			break
		}
	}
	d = min(d, most)
	return d/2 + rand.N(d/2+1) //nolint:gosec // no secret
}

// Effect implements step.Env.
func (a *attempt) Effect(ctx context.Context, what string, do func(context.Context) error) error {
	err := a.runner.fence.Do(ctx, fence.Effect{
		Do:        do,
		Confirmed: func() { a.Say("%s", what) },
		Late: func(times int, err error) {
			if times&(times-1) == 0 {
				a.Logger.Warn("effect was too late and was not sent, will retry",
					"step", a.Step.GetName(), "attempt", a.Op.Attempt, "effect", what, "times", times, "error", err)
			}
		},
		Pause:    a.Config.PollMin,
		MaxPause: a.Config.PollMax,
	})
	if err == nil {
		// failpoint: effect-done
		a.afterEffect()
	}
	return err
}

// afterEffect calls the boundary AfterEffect once per attempt, even if no effect was needed.
func (a *attempt) afterEffect() {
	if !a.crossed {
		a.crossed = true
		a.runner.cfg.Boundary(AfterEffect, a.Kind)
	}
}

// causeEvery is the factor by which a new error of the same wait is recorded less often
// than a new wait.
const causeEvery = 10

// Note implements step.Env: it records the current wait once it has lasted for NoteAfter.
func (a *attempt) Note(ctx context.Context) error {
	after := a.runner.cfg.NoteAfter
	if proto.Equal(a.Wait.For, a.noted.For) || time.Since(a.Wait.Since) < after {
		return nil
	}
	if a.Began.IsZero() {
		a.slow.note(a.Wait.For)
		return nil
	}
	if a.Wait.Same(a.noted) && a.noted.For.GetCause() != "" && time.Since(a.notedAt) < causeEvery*after {
		return nil // an error whose text changes each time must not write a log entry each time
	}
	return a.Record(ctx, nil)
}

// Record implements step.Env. It does not include the run log, though the command could: notes are
// rare, and logs of many runs are committed together every LogFlush anyway.
func (a *attempt) Record(ctx context.Context, evidence map[string]string) error {
	evidence = task.Values(evidence)
	// The commit must outlive the attempt: if a cancel or the deadline interrupted it,
	// its outcome would be unknown, which ends the term.
	committing := trace.ContextWithSpan(a.Term, trace.SpanFromContext(ctx))
	note := &internalv1.NoteProgress{
		RunId:        a.Op.RunID,
		Step:         a.Step.GetName(),
		Attempt:      a.Op.Attempt,
		Wait:         a.Waiting(),
		Evidence:     evidence,
		NextActionAt: at(time.Now().Add(a.Config.PollMax)),
	}
	//nolint:contextcheck // see above
	run, err := a.runner.proposeRun(committing,
		&internalv1.Command{Op: &internalv1.Command_NoteProgress{NoteProgress: note}})
	if err != nil {
		a.Broken = err
		return err
	}
	// failpoint: progress-committed
	a.Run = run
	a.noted, a.notedAt = a.Wait, time.Now()
	a.AddEvidence(evidence)
	return nil
}

// Write implements step.Log.
func (a *attempt) Write(stream string, data []byte) { a.WriteBy("", stream, data) }

// WriteBy implements step.Log.
func (a *attempt) WriteBy(principal, stream string, data []byte) {
	a.runner.out.write(&holdfastv1.LogChunk{
		Ts:        at(time.Now()),
		Stream:    stream,
		Data:      data,
		Step:      a.Step.GetName(),
		Attempt:   a.Op.Attempt,
		Principal: principal,
	})
}

// Commit implements step.Log.
func (a *attempt) Commit(ctx context.Context) error {
	appendTo := func(l *internalv1.LogAppend) error {
		if l == nil {
			return nil
		}
		return a.runner.appendLogs(ctx, l)
	}
	err := a.runner.out.last(appendTo, appendTo)
	if err != nil {
		a.Broken = err
	}
	return err
}
