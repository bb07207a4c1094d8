package step

import (
	"context"
	"time"

	"github.com/holdfast-metal/holdfast/executor/task"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
)

// stopping is how a machine is to be powered off.
type stopping struct {
	force bool          // skip the soft off
	grace time.Duration // time for the operating system to shut down
}

// stopping returns how to power off. The grace time is the step's own, the run's
// parameter shutdown_seconds, or the default of the configuration.
func (a *Attempt) stopping(force bool, seconds int32) stopping {
	how := stopping{force, time.Duration(seconds) * time.Second}
	if how.grace <= 0 {
		how.grace = time.Duration(a.values.Integer("shutdown_seconds")) * time.Second
	}
	if how.grace <= 0 {
		how.grace = a.Config.SoftOff
	}
	return how
}

// powerOff requests a soft off first, unless forced. If the machine is still on after the
// grace time, it presses the power button.
func (a *powerStep) powerOff(ctx context.Context, how stopping) error {
	if !how.force {
		if end, ok := ctx.Deadline(); ok { // leave time for the power button
			how.grace = min(how.grace, time.Until(end)/2)
		}
		if off, err := a.softOff(ctx, how.grace); off || err != nil {
			return err
		}
	}
	return a.pressAndWait(ctx, providers.ActionHardOff)
}

func waitSoftOff() *holdfastv1.Wait { return effect("operating system", "off") }

// softOff requests that the operating system powers off, and waits for the grace time.
// The request and the end of that time are recorded before the request is sent, so a new
// leader does not repeat it: it waits for the rest of the time.
//
// If the earlier leader died before it recorded that the BMC accepted the request, the
// request may never have been sent. Then, and only if the machine is still on after the
// grace time, softOff sends a second request, which is recorded too. A second request is
// harmless, but cutting the power of a system that was never asked to shut down is not.
func (a *powerStep) softOff(ctx context.Context, grace time.Duration) (off bool, err error) {
	until, err := time.Parse(time.RFC3339Nano, a.Seen[evidenceSoftUntil])
	if asked := err == nil; asked {
		// The wall clock may have jumped, so wait at most for the grace time.
		if most := time.Now().Add(grace); until.After(most) {
			until = most
		}
		a.Say("the operating system was asked to power off at %s, by an earlier leader", toSecond(a.Seen[evidenceSoftOff]))
		if err := a.settle(ctx, a.is(providers.PowerOff)); err != nil {
			return false, err
		}
	} else if until, err = a.askOff(ctx, evidenceSoftOff, grace); err != nil {
		return false, err
	}
	if off, err := a.wentOff(ctx, until); off || err != nil {
		return off, err
	}
	if a.Seen[evidenceSoftSent] == "" && a.Seen[evidenceSoftRetry] == "" {
		if end, ok := ctx.Deadline(); ok {
			grace = min(grace, time.Until(end)/2)
		}
		a.Say("the earlier leader did not record whether the soft off was sent: requesting it again")
		if until, err = a.askOff(ctx, evidenceSoftRetry, grace); err != nil {
			return false, err
		}
		if off, err := a.wentOff(ctx, until); off || err != nil {
			return off, err
		}
	}
	a.Say("the operating system did not power off within %s", rounded(grace))
	return false, nil
}

// askOff sends a soft off request and returns the end of the grace time. The time of the
// request is recorded as the evidence named by key. If the BMC does not support it, it is an
// error: only an operator may decide to cut the power of a running system.
func (a *powerStep) askOff(ctx context.Context, key string, grace time.Duration) (time.Time, error) {
	now := time.Now()
	a.awaits(waitSoftOff())
	if err := a.Record(ctx, map[string]string{key: stamp(now), evidenceSoftUntil: stamp(now.Add(grace))}); err != nil {
		return time.Time{}, err
	}
	err := a.press(ctx, providers.ActionSoftOff)
	switch {
	case err != nil && a.Broken == nil && providers.ClassOf(err) == providers.Unsupported:
		a.Say("no soft off was sent, and the power was not cut: %s", task.Clean(err.Error()))
		return time.Time{}, providers.Errorf(providers.Unsupported, "power off "+a.Machine.GetMachineId(),
			"the BMC has no soft way off, and cutting the power of a running system needs force: "+
				"run it again with --force (a run: --param force=true): %w", err)
	case err != nil && !a.isUnknown(ctx, err):
		return time.Time{}, err
	}
	now = time.Now()
	return now.Add(grace), a.Record(ctx, map[string]string{evidenceSoftSent: stamp(now)})
}

// wentOff polls the machine until a time, and reports whether it is off.
func (a *powerStep) wentOff(ctx context.Context, until time.Time) (off bool, err error) {
	isOff := a.is(providers.PowerOff)
	softCtx, stop := context.WithDeadline(ctx, until)
	defer stop()
	err = a.Poll(softCtx, waitSoftOff(), isOff)
	switch {
	case err == nil:
		return true, nil
	case ctx.Err() != nil || a.Broken != nil || softCtx.Err() == nil:
		return false, err
	}
	off, err = isOff(ctx) // the time may have been too short for a poll
	return off && err == nil, nil
}

// toSecond returns a time of the evidence without fractions of a second.
func toSecond(value string) string {
	t, err := time.Parse(time.RFC3339Nano, value)
	if err != nil {
		return value
	}
	return t.Format(time.RFC3339)
}

// stamp formats a time for the evidence.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
