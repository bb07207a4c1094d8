package executor

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

// press presses a button of the chassis, which shows as shown says, or after the provider's Settle
// at the latest.
func (a *attempt) press(ctx context.Context, power providers.PowerController, action providers.PowerAction, shown func(context.Context) (bool, error)) error {
	return a.effect(ctx, "power "+string(action), func(ctx context.Context) error {
		err := power.SetPower(ctx, a.op, a.machine, action)
		if err == nil || providers.ClassOf(err) != providers.Late {
			a.hand.sent, a.hand.shown = time.Now(), shown
		}
		return err
	})
}

// pressed presses a button and waits until it shows. A press whose answer did not come may have
// been done, and is no failure: the machine is looked at for as long as a press may take to show.
// Only then is the attempt given up, and a next one presses again.
func (a *attempt) pressed(ctx context.Context, power providers.PowerController, action providers.PowerAction, what string, shown func(context.Context) (bool, error)) error {
	lost := a.press(ctx, power, action, shown)
	if lost == nil {
		return a.poll(ctx, what, shown)
	}
	if !a.unanswered(ctx, lost) {
		return lost
	}
	var answers time.Time // since when the machine can be looked at
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

// hand is what may be on a power button still.
type hand struct {
	sent  time.Time                           // the last press, by this leader or at the latest by the one before; zero for none
	shown func(context.Context) (bool, error) // nil: nobody can tell
}

// presses reports whether a step of this kind presses a power button.
func presses(kind string) bool {
	return slices.Contains([]string{"power", "reboot", "repave", "rma"}, kind)
}

// letGo waits until a press of an attempt that is canceled, or out of time, has shown or cannot any
// more: before that the hand is on the button, and the machine must not be another run's (decision
// 0008). When the term is over it waits no longer: the next leader does.
func (a *attempt) letGo() {
	if a.hand.sent.IsZero() || a.broken != nil {
		return
	}
	ctx, stop := context.WithDeadline(a.whole, a.hand.sent.Add(a.settleTime()))
	defer stop()
	for ctx.Err() == nil {
		if a.hand.shown != nil {
			if ok, err := a.hand.shown(ctx); ok && err == nil {
				return
			}
		}
		_ = sleep(ctx, a.cfg.PollMax)
	}
}

// letGoLeftover is letGo for an attempt that an earlier leader left open.
func (a *attempt) letGoLeftover(ctx context.Context) error {
	if a.adopted == nil || !presses(a.kind) {
		return nil
	}
	var err error
	if a.provider, err = a.providers.Of(a.machine); err != nil {
		return nil //nolint:nilerr // there is nobody to ask: the run ends all the same
	}
	if err := a.takeUp(ctx, a.settleTime()); err != nil {
		return err
	}
	a.letGo() //nolint:contextcheck // the run's context has ended, the term's goes on
	return nil
}

// unanswered reports whether an error means that nobody knows what became of an effect, and puts
// that into the log.
func (a *attempt) unanswered(ctx context.Context, err error) bool {
	if ctx.Err() != nil || a.broken != nil || providers.ClassOf(err) != providers.Timeout {
		return false
	}
	a.say("whether it was done is not known, so the machine is looked at: %s", clean(err.Error()))
	return true
}

// settleTime is how long an effect may take to show.
func (a *attempt) settleTime() time.Duration {
	if s, ok := a.provider.(providers.Settler); ok {
		return s.Settle(a.machine)
	}
	return time.Second
}
