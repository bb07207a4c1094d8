package executor

import (
	"context"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

// press presses a button of the chassis. It gives when that was, also where nobody knows whether it was done; zero when nothing was sent.
func (a *attempt) press(ctx context.Context, power providers.PowerController, action providers.PowerAction) (sent time.Time, err error) {
	err = a.effect(ctx, "power "+string(action), func(ctx context.Context) error {
		err := power.SetPower(ctx, a.op, a.machine, action)
		if err == nil || providers.ClassOf(err) != providers.Late {
			sent = time.Now()
		}
		return err
	})
	return sent, err
}

// pressed presses a button and waits until it shows. A press whose answer did not come may have been done, and is no failure: the machine is
// looked at for as long as a press may take to show. Only then is the attempt given up, and a next one presses again.
func (a *attempt) pressed(ctx context.Context, power providers.PowerController, action providers.PowerAction, what string, shown func(context.Context) (bool, error)) error {
	sent, lost := a.press(ctx, power, action)
	defer a.letShow(ctx, &sent, shown)
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

// letShow waits, when the attempt was canceled or is out of time, until a press has shown or cannot any more: before that the hand is on the button, and the machine must
// not be another run's (decision 0008). When it is only the term that is over, the next leader does that.
func (a *attempt) letShow(ctx context.Context, sent *time.Time, shown func(context.Context) (bool, error)) {
	if ctx.Err() == nil || sent.IsZero() || a.broken != nil {
		return
	}
	ctx, stop := context.WithDeadline(a.whole, sent.Add(a.settleTime()))
	defer stop()
	for {
		if ok, err := shown(ctx); ok && err == nil || sleep(ctx, a.cfg.PollMax) != nil { //nolint:contextcheck // the attempt's context has ended, the term's goes on
			return
		}
	}
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
