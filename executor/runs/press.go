package runs

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-metal/holdfast/executor/task"
	"github.com/holdfast-metal/holdfast/providers"
)

// setPower presses the power button. shown reports whether the press has taken effect, which
// may take as long as the provider's Settle.
func (a *attempt) setPower(
	ctx context.Context,
	power providers.PowerController,
	action providers.PowerAction,
	shown func(context.Context) (bool, error),
) error {
	return a.effect(ctx, "power "+string(action), func(ctx context.Context) error {
		err := power.SetPower(ctx, a.op, a.machine, action)
		if err == nil || providers.ClassOf(err) != providers.Late {
			a.inFlight.sent, a.inFlight.shown = time.Now(), shown
		}
		return err
	})
}

// setPowerAndWait presses the power button and waits until shown returns true. If the BMC does
// not answer, the press may have been done, so this is not a failure yet: the machine is
// polled for as long as a press may take to show. Only then the attempt fails, and the
// next one presses again.
func (a *attempt) setPowerAndWait(
	ctx context.Context,
	power providers.PowerController,
	action providers.PowerAction,
	what string,
	shown func(context.Context) (bool, error),
) error {
	lost := a.setPower(ctx, power, action, shown)
	if lost == nil {
		return a.poll(ctx, what, shown)
	}
	if !a.isUnknown(ctx, lost) {
		return lost
	}
	var answers time.Time // when the machine first answered a poll
	return a.poll(ctx, what, func(ctx context.Context) (bool, error) {
		ok, err := shown(ctx)
		switch {
		case ok || err != nil:
			return ok, err
		case answers.IsZero():
			answers = time.Now()
		case time.Since(answers) > a.settleTime():
			return false, &failure{lost}
		}
		return false, nil
	})
}

// inFlight is a press that may still be in flight.
type inFlight struct {
	sent  time.Time                           // upper bound of the time of the last press, by any leader; zero for none
	shown func(context.Context) (bool, error) // reports whether the press has taken effect; nil if unknown
}

// presses reports whether a step of this kind presses a power button.
func presses(kind string) bool {
	return slices.Contains([]string{"power", "reboot", "repave", "rma"}, kind)
}

// awaitSettle blocks until the press in flight has taken effect or cannot any more. It is
// called if the attempt is canceled or out of time: until then the machine must not be
// used by another run (decision 0008). It returns when the term ends: the next leader
// waits instead.
func (a *attempt) awaitSettle() {
	if a.inFlight.sent.IsZero() || a.broken != nil {
		return
	}
	ctx, stop := context.WithDeadline(a.whole, a.inFlight.sent.Add(a.settleTime()))
	defer stop()
	for ctx.Err() == nil {
		if a.inFlight.shown != nil {
			if ok, err := a.inFlight.shown(ctx); ok && err == nil {
				return
			}
		}
		_ = task.Sleep(ctx, a.cfg.PollMax)
	}
}

// cleanupPress is awaitSettle for an attempt that an earlier leader left open.
func (a *attempt) cleanupPress(ctx context.Context) error {
	if a.adopted == nil || !presses(a.kind) {
		return nil
	}
	var err error
	if a.provider, err = a.providers.Of(a.machine); err != nil {
		return nil //nolint:nilerr // the machine has no provider to poll: the run ends all the same
	}
	if err := a.adopt(ctx, a.settleTime()); err != nil {
		return err
	}
	a.awaitSettle() //nolint:contextcheck // the run's context has ended, the term's has not
	return nil
}

// isUnknown reports whether an error means that the outcome of an effect is unknown. If
// so, it writes that to the run log.
func (a *attempt) isUnknown(ctx context.Context, err error) bool {
	if ctx.Err() != nil || a.broken != nil || providers.ClassOf(err) != providers.Timeout {
		return false
	}
	a.say("no answer, so the outcome is unknown: polling the machine: %s", task.Clean(err.Error()))
	return true
}

// settleTime returns the time within which an effect shows.
func (a *attempt) settleTime() time.Duration {
	if s, ok := a.provider.(providers.Settler); ok {
		return s.Settle(a.machine)
	}
	return time.Second
}
