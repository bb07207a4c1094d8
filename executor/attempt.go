package executor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"time"

	"go.opentelemetry.io/otel/trace"

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
	adopted  *holdfastv1.Attempt // begun by an earlier leader: observe before acting

	before  map[string]string // evidence from before the effect
	seen    map[string]string // evidence gathered since
	message string            // what the step has to say in the end

	inventory *holdfastv1.HardwareInventory // what was read of the machine, to be kept

	began      time.Time // by this leader
	waitingFor string    // with the last error
	wait       string    // without it
	since      time.Time // since when that is waited for
	noted      string    // the wait that is recorded
	notedWait  string    // the same without an error
	notedAt    time.Time
	hand       hand
	crossed    bool  // the boundary after the first effect
	broken     error // a commit in the middle failed: the attempt cannot be concluded by this leader
}

// make takes the attempt from intent to outcome and gives the run after it.
func (a *attempt) make(ctx context.Context) (*holdfastv1.Run, error) {
	timeout := time.Duration(a.status.GetTimeoutSeconds()) * time.Second
	if timeout <= 0 {
		timeout = a.cfg.StepDeadline
	}
	deadline := time.Now().Add(timeout)
	if a.adopted != nil {
		// What the outage took of the time is not the step's fault: there is always time to
		// observe.
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
		action = func(context.Context) error { return err } // it is an attempt that failed, on record like any other
	}
	a.cfg.Boundary(BeforeIntent, a.kind)
	if err := a.intend(ctx, deadline); err != nil {
		return nil, err
	}
	a.cfg.Boundary(AfterIntent, a.kind)
	err = action(attemptCtx) //nolint:contextcheck // the same
	if err != nil && attemptCtx.Err() != nil {
		a.letGo() //nolint:contextcheck // the attempt's context has ended, the term's goes on
	}
	if ctx.Err() != nil {
		return nil, ctx.Err() // the term is over: the attempt stays open for the next leader
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
	leastRemainder = 30 * time.Second // that an adopted attempt has, to observe
	fairAdoptions  = 8                // leaders that may give an attempt more than that
)

// remainder returns how long an adopted attempt has at least when its deadline is near or has
// passed. Half of the timeout, for an outage may have taken the time that the step needed; an
// attempt that leader after leader has adopted ends sometime.
func (a *attempt) remainder(timeout time.Duration) time.Duration {
	least := min(timeout, leastRemainder)
	if time.Until(a.run.GetDeadline().AsTime()) > least || len(a.adopted.GetEpochs()) >= fairAdoptions {
		return least
	}
	return max(least, timeout/2)
}

// prepareTime bounds the look at the machine before the intent. An attempt that fails there is
// recorded like any other.
const prepareTime = 30 * time.Second

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// action is how a step is done: do brings it about and gathers the evidence; before, if there is
// one, observes what the effect will change.
type action struct {
	do     func(context.Context) error
	before func(context.Context) (map[string]string, error)
}

// prepare picks the provider and how the step is done, and observes what is there before the
// effect.
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
		err = a.poll(ctx, "a first look at the machine", func(ctx context.Context) (bool, error) {
			seen, err := how.before(ctx)
			a.before = saidAll(seen)
			return err == nil, err
		})
	}
	return how.do, err
}

// intend commits that the effect is about to be done.
func (a *attempt) intend(ctx context.Context, deadline time.Time) error {
	a.began, a.noted = time.Now(), "the "+a.kind
	run, err := a.proposeRun(ctx, &internalv1.Command{Op: &internalv1.Command_BeginAttempt{BeginAttempt: &internalv1.BeginAttempt{
		RunId: a.id, Step: a.step.GetName(), Attempt: a.number, Deadline: at(deadline), WaitingFor: a.noted,
		EvidenceBefore: a.before, NextActionAt: at(a.began)}}})
	if err != nil {
		return err
	}
	// failpoint: intent-committed
	a.run = run
	if a.adopted != nil && presses(a.kind) {
		a.hand.sent = a.began
	}
	if a.adopted != nil {
		a.say("attempt %d of %s goes on under the leader of term %d", a.number, a.step.GetName(), a.epoch)
	} else {
		a.say("attempt %d of %s (%s)", a.number, a.step.GetName(), a.kind)
	}
	return nil
}

// takeUp records that this leader goes on with an attempt, to end it. It may be called again.
func (a *attempt) takeUp(ctx context.Context, most time.Duration) error {
	if !a.began.IsZero() {
		return nil
	}
	return a.intend(ctx, time.Now().Add(most))
}

// conclude commits the outcome with its evidence and what is left of the log.
func (a *attempt) conclude(ctx context.Context, timedOut bool, failure error) (*holdfastv1.Run, error) {
	end := &internalv1.EndAttempt{RunId: a.id, Step: a.step.GetName(), Attempt: a.number, EvidenceAfter: a.seen, Message: upTo(maxWords, a.message), Inventory: a.inventory}
	switch {
	case failure == nil:
		end.Outcome = holdfastv1.Attempt_SUCCEEDED
		a.say("%s succeeded%s", a.step.GetName(), suffix(a.message))
	case errors.Is(context.Cause(a.live), errCanceled): //nolint:contextcheck // the run's context knows why it ended
		end.Outcome, end.Error = holdfastv1.Attempt_CANCELED, "canceled while waiting for "+a.waiting()
		end.Message = end.GetError()
		a.say("%s %s", a.step.GetName(), end.GetError())
	default:
		class := providers.ClassOf(failure)
		if timedOut {
			class = providers.Timeout
			failure = fmt.Errorf("gave up after %s waiting for %s%s", time.Since(a.began).Round(time.Millisecond), a.waiting(), cause(failure))
		}
		end.Outcome, end.Error, end.ErrorClass = holdfastv1.Attempt_FAILED, upTo(maxWords, failure.Error()), string(class)
		end.Permanent = permanent(class, a.status)
		end.RetryAt = at(time.Now().Add(retryAfter(a.cfg.RetryBase, a.cfg.RetryMax, a.number)))
		end.Message = end.GetError()
		a.say("%s failed: %s", a.step.GetName(), end.GetError())
		a.runner.log.Warn("attempt failed", "step", a.step.GetName(), "attempt", a.number, "class", class, "error", end.GetError())
	}
	a.tell(ctx, end.GetOutcome())
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

// permanent reports whether a retry is pointless, or dangerous: accounts lock after a few refusals
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

// effect does one thing that changes the world. Right before it a majority has to confirm that this
// leader has not been replaced: a process that was stopped and goes on must not press a button that
// the next leader has pressed. What is not sent soon after that is not sent any more (decision
// 0004): then nothing was done, and the majority is asked again.
func (a *attempt) effect(ctx context.Context, what string, do func(context.Context) error) error {
	said, late, wait := false, 0, a.cfg.PollMin
	for {
		// failpoint: effect-due
		notAfter, err := a.lease(ctx)
		if err == nil {
			if !said {
				said = true
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
			// What was opened on the way makes the next try quicker. Where that does not help,
			// something is wrong for longer: a clock.
			if late++; late&(late-1) == 0 {
				a.runner.log.Warn("effect came too late and was not done", "step", a.step.GetName(), "attempt", a.number, "effect", what, "times", late, "error", err)
			}
			wait = min(2*wait, a.cfg.PollMax)
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// lease has a majority confirm the term, and gives the time after which nothing may be sent on its
// word.
func (a *attempt) lease(ctx context.Context) (notAfter time.Time, err error) {
	asked := time.Now()
	if err := a.confirm(ctx); err != nil {
		return time.Time{}, err
	}
	if took := time.Since(asked); took >= confirmValid {
		return time.Time{}, fmt.Errorf("confirm the term: a majority answered after %s, which is too old after %s", took, confirmValid)
	}
	return asked.Add(effectValid), nil
}

// afterEffect reaches the boundary once an attempt, also when there was nothing left to do.
func (a *attempt) afterEffect() {
	if !a.crossed {
		a.crossed = true
		a.cfg.Boundary(AfterEffect, a.kind)
	}
}

// awaits reports what a poll waits for now: it may learn that from what it sees.
func (a *attempt) awaits(what string) {
	a.awaitsBut(what, "")
}

// awaitsBut is awaits with the error that keeps it from happening. Another error of the same wait
// does not begin it again.
func (a *attempt) awaitsBut(what, cause string) {
	if a.wait != what {
		a.wait, a.since = what, time.Now()
	}
	if a.waitingFor = what; cause != "" {
		a.waitingFor += fsm.ButCause + cause
	}
}

// poll observes until cond holds. Errors that may pass are borne until the deadline, and told to
// who asks what the run waits for; the others end the attempt.
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
			a.awaitsBut(what, brief(err))
		case a.wait == what: // cond may have learned what is really waited for
			a.awaits(what)
		}
		if err := a.note(ctx); err != nil {
			return err
		}
		if err := sleep(ctx, p.interval()); err != nil {
			if last != nil {
				return last
			}
			return err
		}
	}
}

// passing reports whether an error may be gone at the next look.
func passing(err error) bool {
	var observed *failure
	if errors.As(err, &observed) {
		return false
	}
	class := providers.ClassOf(err)
	return class == providers.Transient || class == providers.Timeout
}

// failure ends an attempt at once: it is an outcome that was observed, not an observation that
// failed.
type failure struct{ error }

func (f *failure) Unwrap() error { return f.error }

// settle returns what an earlier leader may have sent the time to show, before it is concluded that
// nothing was sent. It answers early when cond says that it has shown.
func (a *attempt) settle(ctx context.Context, cond func(context.Context) (bool, error)) error {
	if a.adopted == nil {
		return nil
	}
	return a.poll(ctx, "what the earlier leader may have done to show", func(ctx context.Context) (bool, error) {
		shown, err := cond(ctx)
		if shown || err != nil {
			return shown, err
		}
		// Asked after the look: a provider may learn from it how slow the hardware is.
		return time.Since(a.began) > a.settleTime(), nil
	})
}

// causeEvery is how much longer than for another wait it takes until another error of the same wait
// is recorded.
const causeEvery = 10

// note records what the attempt waits for, once it has waited for long enough to interest somebody.
func (a *attempt) note(ctx context.Context) error {
	if a.waitingFor == a.noted || a.began.IsZero() || time.Since(a.since) < a.cfg.NoteAfter {
		return nil
	}
	if a.wait == a.notedWait && a.noted != a.wait && time.Since(a.notedAt) < causeEvery*a.cfg.NoteAfter {
		return nil // an error whose words differ each time is not worth an entry of the log each time
	}
	return a.record(ctx, nil)
}

// record commits evidence in the middle of an attempt, and what it waits for. It takes no log
// along, though the command could: notes are rare, and what was said is recorded within a LogFlush
// anyway, many runs in one command.
func (a *attempt) record(ctx context.Context, evidence map[string]string) error {
	evidence = saidAll(evidence)
	// A commit outlives the attempt: if a cancel or the deadline cut it off, its outcome would be
	// unknown, and that ends the term.
	committing := trace.ContextWithSpan(a.whole, trace.SpanFromContext(ctx))
	//nolint:contextcheck // see above
	run, err := a.proposeRun(committing, &internalv1.Command{Op: &internalv1.Command_NoteProgress{NoteProgress: &internalv1.NoteProgress{
		RunId: a.id, Step: a.step.GetName(), Attempt: a.number, WaitingFor: upTo(maxWords, a.waiting()), Evidence: evidence,
		NextActionAt: at(time.Now().Add(a.cfg.PollMax))}}})
	if err != nil {
		a.broken = err
		return err
	}
	// failpoint: progress-committed
	a.run, a.noted, a.notedWait, a.notedAt = run, a.waitingFor, a.wait, time.Now()
	a.prove(evidence)
	return nil
}

// prove adds to the evidence of the outcome.
func (a *attempt) prove(evidence map[string]string) {
	if a.seen == nil {
		a.seen = map[string]string{}
	}
	maps.Copy(a.seen, saidAll(evidence))
}

func (a *attempt) waiting() string {
	if a.waitingFor == "" {
		return "the " + a.kind
	}
	return a.waitingFor
}

// say writes a line of Holdfast's own into the run's log.
func (a *attempt) say(format string, args ...any) {
	a.write("system", fmt.Appendf(nil, format+"\n", args...))
}

func (a *attempt) write(stream string, data []byte) {
	a.out.write(&holdfastv1.LogChunk{Ts: at(time.Now()), Stream: stream, Data: data, Step: a.step.GetName(), Attempt: a.number})
}

// brief is an error in the line that says what a run waits for.
func brief(err error) string {
	return upTo(300, ephemeral.ReplaceAllString(err.Error(), "$1->"))
}

// ephemeral is the local address of a connection in an error of package net, whose port is another
// one each time.
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
