package step

import (
	"context"
	"time"

	"github.com/holdfast-metal/holdfast/executor/task"
	"github.com/holdfast-metal/holdfast/internal/wait"
	"github.com/holdfast-metal/holdfast/proto/holdfast/stepkind"
	"github.com/holdfast-metal/holdfast/providers"
)

// press presses the power button.
func (a *powerStep) press(ctx context.Context, action providers.PowerAction) error {
	return a.Effect(ctx, "power "+string(action), func(ctx context.Context) error {
		a.last = reading{}
		err := a.bmc.SetPower(ctx, a.Op, a.Machine, action)
		if err == nil || providers.ClassOf(err) != providers.Late {
			a.InFlight = InFlight{Sent: time.Now(), shown: a.is(stateAfter(action))}
		}
		return err
	})
}

// stateAfter returns the power state that a press leads to.
func stateAfter(action providers.PowerAction) providers.PowerState {
	if action == providers.ActionOn {
		return providers.PowerOn
	}
	return providers.PowerOff
}

// pressAndWait presses the power button and waits until the power has the wanted state. If the BMC
// does not answer, the press may have been done, so this is not a failure yet: the machine is
// polled for as long as a press may take to show. Only then the attempt fails, and the next one
// presses again.
func (a *powerStep) pressAndWait(ctx context.Context, action providers.PowerAction) error {
	want := stateAfter(action)
	what, shown := effect("power", string(want)), a.is(want)
	lost := a.press(ctx, action)
	if lost == nil {
		return a.Poll(ctx, accepted(what, string(action)), shown)
	}
	if !a.isUnknown(ctx, lost) {
		return lost
	}
	var answers time.Time // when the machine first answered a poll
	return a.Poll(ctx, what, func(ctx context.Context) (bool, error) {
		ok, err := shown(ctx)
		switch {
		case ok || err != nil:
			return ok, err
		case answers.IsZero():
			answers = time.Now()
		case time.Since(answers) > a.SettleTime():
			return false, &Failure{lost}
		}
		return false, nil
	})
}

// InFlight is a press that may still be in flight.
type InFlight struct {
	Sent  time.Time                           // upper bound of the time of the last press, by any leader; zero for none
	shown func(context.Context) (bool, error) // reports whether the press has taken effect; nil if unknown
}

// Presses reports whether a step of this kind presses a power button.
func Presses(kind string) bool {
	return stepkind.Named(kind).GetPresses()
}

// AwaitSettle blocks until the press in flight has taken effect or cannot any more. It is
// called if the attempt is canceled or out of time: until then the machine must not be
// used by another run (decision 0008). It returns when the term ends: the next leader
// waits instead.
func (a *Attempt) AwaitSettle() {
	if a.InFlight.Sent.IsZero() || a.Broken != nil {
		return
	}
	ctx, stop := context.WithDeadline(a.Term, a.InFlight.Sent.Add(a.SettleTime()))
	defer stop()
	for ctx.Err() == nil {
		if a.InFlight.shown != nil {
			if ok, err := a.InFlight.shown(ctx); ok && err == nil {
				return
			}
		}
		_ = wait.Sleep(ctx, a.Config.PollMax)
	}
}

// cleanupPress is AwaitSettle for an attempt that an earlier leader left open.
func (a *Attempt) cleanupPress(ctx context.Context) error {
	if !Presses(a.Kind) {
		return nil
	}
	if err := a.Adopt(ctx, a.SettleTime()); err != nil {
		return err
	}
	a.AwaitSettle() //nolint:contextcheck // the run's context has ended, the term's has not
	return nil
}

// isUnknown reports whether an error means that the outcome of an effect is unknown. If
// so, it writes that to the run log.
func (a *Attempt) isUnknown(ctx context.Context, err error) bool {
	if ctx.Err() != nil || a.Broken != nil || providers.ClassOf(err) != providers.Timeout {
		return false
	}
	a.Say("no answer, so the outcome is unknown: polling the machine: %s", task.Clean(err.Error()))
	return true
}

// SettleTime returns the time within which an effect shows.
func (a *Attempt) SettleTime() time.Duration {
	if s, ok := a.Provider.(providers.Settler); ok {
		return s.Settle(a.Machine)
	}
	return time.Second
}
