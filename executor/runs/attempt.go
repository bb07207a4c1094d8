package runs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-metal/holdfast/executor/task"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// attempt is one try of a step.
type attempt struct {
	*runner
	status   *holdfastv1.StepStatus
	step     *holdfastv1.Step
	kind     string
	machine  *holdfastv1.Machine
	provider providers.Provider
	number   int32
	op       providers.Op
	adopted  *holdfastv1.Attempt // set if an earlier leader began the attempt: observe before acting

	before  map[string]string // evidence from before the effect
	seen    map[string]string // evidence gathered since
	message string            // final message of the step

	inventory *holdfastv1.HardwareInventory // read from the machine, to be stored with the outcome

	began      time.Time // when this leader recorded the intent
	waitingFor string    // current wait, with its last error
	wait       string    // current wait, without the error
	since      time.Time // start of the current wait
	noted      string    // last recorded wait, with its error
	notedWait  string    // last recorded wait, without the error
	notedAt    time.Time
	inFlight   inFlight
	crossed    bool  // the boundary after the first effect was reached
	broken     error // a commit during the attempt failed: this leader cannot conclude it
}

// make executes the attempt from intent to outcome and returns the run after it.
func (a *attempt) make(ctx context.Context) (*holdfastv1.Run, error) {
	timeout := time.Duration(a.status.GetTimeoutSeconds()) * time.Second
	if timeout <= 0 {
		timeout = a.cfg.StepDeadline
	}
	deadline := time.Now().Add(timeout)
	if a.adopted != nil {
		// An outage must not fail the step: there is always some time left to observe.
		if d := a.run.GetDeadline(); d != nil && d.AsTime().Before(deadline) {
			deadline = latest(d.AsTime(), time.Now().Add(a.remainder(timeout)))
		}
	}
	ctx, live, done := a.traced(ctx)
	defer done()
	attemptCtx, stop := allow(live, deadline)
	defer stop()

	action, err := a.prepare(attemptCtx, min(timeout, prepareTime)) //nolint:contextcheck // it derives from live
	if err != nil {
		action = func(context.Context) error { return err } // recorded as a failed attempt like any other
	}
	a.cfg.Boundary(BeforeIntent, a.kind)
	if err := a.intend(ctx, deadline); err != nil {
		return nil, err
	}
	a.cfg.Boundary(AfterIntent, a.kind)
	err = action(attemptCtx) //nolint:contextcheck // the same
	if err != nil && attemptCtx.Err() != nil {
		a.awaitSettle() //nolint:contextcheck // the attempt's context has ended, the term's has not
	}
	if ctx.Err() != nil {
		return nil, ctx.Err() // the term has ended: the attempt stays open for the next leader
	}
	if a.broken != nil {
		return nil, a.broken
	}
	if err == nil {
		a.afterEffect()
	}
	a.cfg.Boundary(AfterEvidence, a.kind)
	return a.conclude(ctx, attemptCtx.timedOut(), err)
}

const (
	leastRemainder = 30 * time.Second // minimum time for an adopted attempt to observe
	fairAdoptions  = 8                // number of leaders that may extend an attempt by more than that
)

// remainder returns the minimum time for an adopted attempt if its deadline is near or
// has passed. It is half of the timeout, because the outage may have used the time that
// the step needed. After fairAdoptions leaders it is only leastRemainder, so that every
// attempt ends eventually.
func (a *attempt) remainder(timeout time.Duration) time.Duration {
	least := min(timeout, leastRemainder)
	if time.Until(a.run.GetDeadline().AsTime()) > least || len(a.adopted.GetEpochs()) >= fairAdoptions {
		return least
	}
	return max(least, timeout/2)
}

// prepareTime bounds the observation of the machine before the intent. An attempt that
// fails there is recorded like any other.
const prepareTime = 30 * time.Second

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// action is the implementation of a step. do carries it out and gathers the evidence.
// before may be nil; it observes the state that the effect will change.
type action struct {
	do     func(context.Context) error
	before func(context.Context) (map[string]string, error)
}

// prepare chooses the provider and the action of the step, and observes the machine
// before the effect.
func (a *attempt) prepare(ctx context.Context, most time.Duration) (func(context.Context) error, error) {
	p, err := a.providers.Of(a.machine)
	if err != nil {
		return nil, err
	}
	a.provider = p
	how, err := a.choose()
	if err != nil {
		return nil, err
	}
	if a.adopted != nil {
		a.before = a.adopted.GetEvidenceBefore()
		a.prove(a.adopted.GetEvidenceAfter())
		return how.do, nil
	}
	if how.before != nil {
		ctx, stop := context.WithTimeout(ctx, most)
		defer stop()
		err = a.poll(ctx, "a first observation of the machine", func(ctx context.Context) (bool, error) {
			seen, err := how.before(ctx)
			a.before = task.Values(seen)
			return err == nil, err
		})
	}
	return how.do, err
}

// intend commits the intent.
func (a *attempt) intend(ctx context.Context, deadline time.Time) error {
	a.began, a.noted = time.Now(), "the "+a.kind
	begin := &internalv1.BeginAttempt{
		RunId:          a.id,
		Step:           a.step.GetName(),
		Attempt:        a.number,
		Deadline:       at(deadline),
		WaitingFor:     a.noted,
		EvidenceBefore: a.before,
		NextActionAt:   at(a.began),
	}
	run, err := a.proposeRun(ctx, &internalv1.Command{Op: &internalv1.Command_BeginAttempt{BeginAttempt: begin}})
	if err != nil {
		return err
	}
	// failpoint: intent-committed
	a.run = run
	if a.adopted != nil && presses(a.kind) {
		a.inFlight.sent = a.began
	}
	if a.adopted != nil {
		a.say("attempt %d of %s continues under the leader of term %d", a.number, a.step.GetName(), a.epoch)
	} else {
		a.say("attempt %d of %s (%s)", a.number, a.step.GetName(), a.kind)
	}
	return nil
}

// adopt records that this leader adopts the attempt, in order to end it. It may be called again.
func (a *attempt) adopt(ctx context.Context, most time.Duration) error {
	if !a.began.IsZero() {
		return nil
	}
	return a.intend(ctx, time.Now().Add(most))
}

// conclude commits the outcome with its evidence and the rest of the log.
func (a *attempt) conclude(ctx context.Context, timedOut bool, failure error) (*holdfastv1.Run, error) {
	end := &internalv1.EndAttempt{
		RunId:         a.id,
		Step:          a.step.GetName(),
		Attempt:       a.number,
		EvidenceAfter: a.seen,
		Message:       task.Truncate(task.MaxText, a.message),
		Inventory:     a.inventory,
	}
	switch {
	case failure == nil:
		end.Outcome = holdfastv1.Attempt_SUCCEEDED
		a.say("%s succeeded%s", a.step.GetName(), suffix(a.message))
	case errors.Is(context.Cause(a.live), errCanceled): //nolint:contextcheck // the run's context has the cause of its end
		end.Outcome, end.Error = holdfastv1.Attempt_CANCELED, "canceled while waiting for "+a.waiting()
		end.Message = end.GetError()
		a.say("%s %s", a.step.GetName(), end.GetError())
	default:
		class := providers.ClassOf(failure)
		if timedOut {
			class = providers.Timeout
			failure = fmt.Errorf("gave up after %s waiting for %s%s",
				time.Since(a.began).Round(time.Millisecond), a.waiting(), cause(failure))
		}
		end.Outcome, end.Error, end.ErrorClass = holdfastv1.Attempt_FAILED, task.Truncate(task.MaxText,
			failure.Error()), string(class)
		end.Permanent = permanent(class, a.status)
		end.RetryAt = at(time.Now().Add(retryAfter(a.cfg.RetryBase, a.cfg.RetryMax, a.number)))
		end.Message = end.GetError()
		a.say("%s failed: %s", a.step.GetName(), end.GetError())
		a.runner.log.Warn("attempt failed",
			"step", a.step.GetName(), "attempt", a.number, "class", class, "error", end.GetError())
	}
	a.endSpan(ctx, end.GetOutcome())
	var run *holdfastv1.Run
	appendTo := func(l *internalv1.LogAppend) error { return a.appendLogs(ctx, l) }
	err := a.out.last(appendTo, func(rest *internalv1.LogAppend) error {
		end.Log = rest
		var err error
		// failpoint: evidence-gathered
		run, err = a.proposeRun(ctx, &internalv1.Command{Op: &internalv1.Command_EndAttempt{EndAttempt: end}})
		// failpoint: outcome-committed
		return err
	})
	return run, err
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

// effect runs do, which changes the outside world. Right before it, a majority has to
// confirm that this peer still leads: a process that was suspended and resumes must not
// repeat an effect of the next leader. do must send its request soon after the
// confirmation, or not at all (decision 0004). If it was too late, nothing was done, and
// effect confirms the term and tries again.
func (a *attempt) effect(ctx context.Context, what string, do func(context.Context) error) error {
	announced, late, wait := false, 0, a.cfg.PollMin
	for {
		// failpoint: effect-due
		notAfter, err := a.lease(ctx)
		if err == nil {
			if !announced {
				announced = true
				a.say("%s", what)
			}
			// failpoint: term-confirmed
			err = do(providers.WithConfirm(providers.WithNotAfter(ctx, notAfter), a.lease))
			if err == nil {
				// failpoint: effect-done
				a.afterEffect()
			}
			if err == nil || providers.ClassOf(err) != providers.Late {
				return err
			}
			// The next try is faster, because it reuses the connections that are open
			// now. If it is late again and again, something else is wrong, such as a
			// clock.
			if late++; late&(late-1) == 0 {
				a.runner.log.Warn("effect was too late and was not sent, will retry",
					"step", a.step.GetName(), "attempt", a.number, "effect", what, "times", late, "error", err)
			}
			wait = min(2*wait, a.cfg.PollMax)
		}
		if err := task.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// lease asks a majority to confirm the term. It returns the time after which no effect
// may be sent on the strength of that confirmation.
func (a *attempt) lease(ctx context.Context) (notAfter time.Time, err error) {
	asked := time.Now()
	if err := a.confirm(ctx); err != nil {
		return time.Time{}, err
	}
	if took := time.Since(asked); took >= confirmValid {
		return time.Time{}, fmt.Errorf("confirm the term: a majority answered after %s, limit %s", took, confirmValid)
	}
	return asked.Add(effectValid), nil
}

// afterEffect calls the boundary AfterEffect once per attempt, even if no effect was needed.
func (a *attempt) afterEffect() {
	if !a.crossed {
		a.crossed = true
		a.cfg.Boundary(AfterEffect, a.kind)
	}
}

// awaits sets the text that describes the current wait. A poll may call it to be more
// precise than its caller.
func (a *attempt) awaits(what string) {
	a.awaitsBut(what, "")
}

// awaitsBut is awaits with the error that prevents progress. A different error of the
// same wait does not restart the wait.
func (a *attempt) awaitsBut(what, cause string) {
	if a.wait != what {
		a.wait, a.since = what, time.Now()
	}
	if a.waitingFor = what; cause != "" {
		a.waitingFor += fsm.ButCause + cause
	}
}

// poll calls cond until it returns true. Transient errors are retried until the deadline
// and shown in the run's waiting_for; any other error fails the attempt.
func (a *attempt) poll(ctx context.Context, what string, cond func(context.Context) (bool, error)) error {
	a.awaits(what)
	p := poller{next: a.cfg.PollMin, most: a.cfg.PollMax}
	var last error
	for {
		ok, err := cond(ctx)
		if ok {
			return nil
		}
		if err != nil && (ctx.Err() != nil || !passing(err)) {
			return err
		}
		switch last = err; {
		case err != nil:
			a.awaitsBut(what, shortError(err))
		case a.wait == what: // unless cond has set a more precise text
			a.awaits(what)
		}
		if err := a.note(ctx); err != nil {
			return err
		}
		if err := task.Sleep(ctx, p.interval()); err != nil {
			if last != nil {
				return last
			}
			return err
		}
	}
}

// passing reports whether an error is transient, so that the next observation may succeed.
func passing(err error) bool {
	var observed *failure
	if errors.As(err, &observed) {
		return false
	}
	class := providers.ClassOf(err)
	return class == providers.Transient || class == providers.Timeout
}

// failure is an error that ends an attempt at once: a bad outcome was observed. Other
// errors mean that the observation failed.
type failure struct{ error }

func (f *failure) Unwrap() error { return f.error }

// settle waits for the result of an effect that an earlier leader may have sent. It
// returns once cond returns true, or after the settle time: then nothing was sent.
func (a *attempt) settle(ctx context.Context, cond func(context.Context) (bool, error)) error {
	if a.adopted == nil {
		return nil
	}
	return a.poll(ctx, "the result of an effect of the earlier leader", func(ctx context.Context) (bool, error) {
		shown, err := cond(ctx)
		if shown || err != nil {
			return shown, err
		}
		// Read settleTime after the observation, which may have told the provider how
		// slow the hardware is.
		return time.Since(a.began) > a.settleTime(), nil
	})
}

// causeEvery is the factor by which a new error of the same wait is recorded less often
// than a new wait.
const causeEvery = 10

// note records the current wait once it has lasted for NoteAfter.
func (a *attempt) note(ctx context.Context) error {
	if a.waitingFor == a.noted || a.began.IsZero() || time.Since(a.since) < a.cfg.NoteAfter {
		return nil
	}
	if a.wait == a.notedWait && a.noted != a.wait && time.Since(a.notedAt) < causeEvery*a.cfg.NoteAfter {
		return nil // an error whose text changes each time must not write a log entry each time
	}
	return a.record(ctx, nil)
}

// record commits evidence and the current wait in the middle of an attempt. It does not
// include the run log, though the command could: notes are rare, and logs of many runs
// are committed together every LogFlush anyway.
func (a *attempt) record(ctx context.Context, evidence map[string]string) error {
	evidence = task.Values(evidence)
	// The commit must outlive the attempt: if a cancel or the deadline interrupted it,
	// its outcome would be unknown, which ends the term.
	committing := trace.ContextWithSpan(a.whole, trace.SpanFromContext(ctx))
	note := &internalv1.NoteProgress{
		RunId:        a.id,
		Step:         a.step.GetName(),
		Attempt:      a.number,
		WaitingFor:   task.Truncate(task.MaxText, a.waiting()),
		Evidence:     evidence,
		NextActionAt: at(time.Now().Add(a.cfg.PollMax)),
	}
	//nolint:contextcheck // see above
	run, err := a.proposeRun(committing, &internalv1.Command{Op: &internalv1.Command_NoteProgress{NoteProgress: note}})
	if err != nil {
		a.broken = err
		return err
	}
	// failpoint: progress-committed
	a.run, a.noted, a.notedWait, a.notedAt = run, a.waitingFor, a.wait, time.Now()
	a.prove(evidence)
	return nil
}

// prove adds evidence to the outcome.
func (a *attempt) prove(evidence map[string]string) {
	if a.seen == nil {
		a.seen = map[string]string{}
	}
	maps.Copy(a.seen, task.Values(evidence))
}

func (a *attempt) waiting() string {
	if a.waitingFor == "" {
		return "the " + a.kind
	}
	return a.waitingFor
}

// say writes a line to the run log, in the stream "system".
func (a *attempt) say(format string, args ...any) {
	a.write("system", fmt.Appendf(nil, format+"\n", args...))
}

func (a *attempt) write(stream string, data []byte) {
	a.out.write(&holdfastv1.LogChunk{
		Ts:      at(time.Now()),
		Stream:  stream,
		Data:    data,
		Step:    a.step.GetName(),
		Attempt: a.number,
	})
}

// shortError returns the text of an error for waiting_for.
func shortError(err error) string {
	return task.Truncate(300, ephemeral.ReplaceAllString(err.Error(), "$1->"))
}

// ephemeral matches the local address of a connection in an error of package net. Its
// port differs each time.
var ephemeral = regexp.MustCompile(`(\d+\.\d+\.\d+\.\d+|\[[0-9a-fA-F:.%\w]+\]):\d+->`)

func suffix(message string) string {
	if message == "" {
		return ""
	}
	return ": " + message
}

func cause(err error) string {
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		return ""
	}
	return ": " + err.Error()
}
