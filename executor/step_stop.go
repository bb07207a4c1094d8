package executor

import (
	"context"
	"strconv"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

// stopping is how a machine is to be powered off.
type stopping struct {
	force bool          // at once
	grace time.Duration // else that is how long the operating system has
}

// stopping returns what a step asks for, else the run's parameter shutdown_seconds, else the
// configuration.
func (a *attempt) stopping(force bool, seconds int32) stopping {
	how := stopping{force, time.Duration(seconds) * time.Second}
	if n, err := strconv.ParseUint(a.run.GetParams()["shutdown_seconds"], 10, 16); how.grace <= 0 && err == nil {
		how.grace = time.Duration(n) * time.Second
	}
	if how.grace <= 0 {
		how.grace = a.cfg.SoftOff
	}
	return how
}

// powerOff asks the operating system first, unless forced, and presses the button when it does not
// listen.
func (a *attempt) powerOff(ctx context.Context, power providers.PowerController, how stopping) error {
	isOff := func(ctx context.Context) (bool, error) { return a.powerIs(ctx, power, providers.PowerOff) }
	if !how.force {
		if end, ok := ctx.Deadline(); ok { // there must be time left for the button
			how.grace = min(how.grace, time.Until(end)/2)
		}
		if off, err := a.softOff(ctx, power, isOff, how.grace); off || err != nil {
			return err
		}
	}
	return a.pressed(ctx, power, providers.ActionHardOff, "the power to be off", isOff)
}

const waitSoftOff = "the operating system to power off"

// softOff asks the operating system to power off and gives it its time. That it is asked, and until
// when it has, is recorded before the request is sent, so a new leader does not ask again: it waits
// for the rest of the time. If the leader before it died before it recorded that the BMC took the
// request, nobody may have asked. Then, and only if the machine is still on when the time is over,
// the system is asked once more, which is recorded as well: a second request is harmless, and to
// cut the power of a system that was never asked is not.
func (a *attempt) softOff(ctx context.Context, power providers.PowerController, isOff func(context.Context) (bool, error), grace time.Duration) (off bool, err error) {
	until, err := time.Parse(time.RFC3339Nano, a.seen[proofSoftUntil])
	if asked := err == nil; asked {
		// A clock that jumped must not make it longer than it was meant to be.
		until = earliest(until, time.Now().Add(grace))
		a.say("the operating system was asked to power off at %s, by an earlier leader", a.seen[proofSoftOff])
		if err := a.settle(ctx, isOff); err != nil {
			return false, err
		}
	} else if until, err = a.askOff(ctx, power, isOff, proofSoftOff, grace); err != nil || until.IsZero() {
		return false, err
	}
	if off, err := a.wentOff(ctx, isOff, until); off || err != nil {
		return off, err
	}
	if a.seen[proofSoftSent] == "" && a.seen[proofSoftAgain] == "" {
		if end, ok := ctx.Deadline(); ok {
			grace = min(grace, time.Until(end)/2)
		}
		a.say("nobody knows whether the operating system was asked to power off: the leader died before it recorded that")
		if until, err = a.askOff(ctx, power, isOff, proofSoftAgain, grace); err != nil || until.IsZero() {
			return false, err
		}
		if off, err := a.wentOff(ctx, isOff, until); off || err != nil {
			return off, err
		}
	}
	a.say("the operating system did not power off within %s", grace)
	return false, nil
}

// askOff asks the operating system to power off, and returns until when it has; the zero time if
// there is no such button. The evidence of that name has when it is asked.
func (a *attempt) askOff(ctx context.Context, power providers.PowerController, isOff func(context.Context) (bool, error), proof string, grace time.Duration) (time.Time, error) {
	now := time.Now()
	a.awaits(waitSoftOff)
	if err := a.record(ctx, map[string]string{proof: stamp(now), proofSoftUntil: stamp(now.Add(grace))}); err != nil {
		return time.Time{}, err
	}
	err := a.press(ctx, power, providers.ActionSoftOff, isOff)
	switch {
	case err != nil && a.broken == nil && providers.ClassOf(err) == providers.Unsupported:
		return time.Time{}, nil
	case err != nil && !a.unanswered(ctx, err):
		return time.Time{}, err
	}
	now = time.Now()
	return now.Add(grace), a.record(ctx, map[string]string{proofSoftSent: stamp(now)})
}

// wentOff reports whether the machine is off by a time.
func (a *attempt) wentOff(ctx context.Context, isOff func(context.Context) (bool, error), until time.Time) (off bool, err error) {
	softCtx, stop := context.WithDeadline(ctx, until)
	defer stop()
	err = a.poll(softCtx, waitSoftOff, isOff)
	switch {
	case err == nil:
		return true, nil
	case ctx.Err() != nil || a.broken != nil || softCtx.Err() == nil:
		return false, err
	}
	off, err = isOff(ctx) // there may have been no time left to look at it
	return off && err == nil, nil
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// stamp words a time as evidence.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
