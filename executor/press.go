package executor

import (
	"context"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

// press presses a button of the chassis.
func (a *attempt) press(ctx context.Context, power providers.PowerController, action providers.PowerAction) error {
	return a.effect(ctx, "power "+string(action), func(ctx context.Context) error {
		return power.SetPower(ctx, a.op, a.machine, action)
	})
}

// pressed presses a button and waits until it shows. A press whose answer did not come may have been done, and is no failure: the machine is
// looked at for as long as a press may take to show. Only then is the attempt given up, and a next one presses again.
func (a *attempt) pressed(ctx context.Context, power providers.PowerController, action providers.PowerAction, what string, shown func(context.Context) (bool, error)) error {
	lost := a.press(ctx, power, action)
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

// unanswered says whether an error means that nobody knows what became of an effect, and puts that into the log.
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
