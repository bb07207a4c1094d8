package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/holdfast-metal/holdfast/executor/task"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/providers"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// The evidence of a light.
const (
	proofLocator  = "light"
	proofLitUntil = "lit_until"
)

// identify switches the locator light, which is idempotent. If the light is to be on for
// a limited time, the end of that time is recorded, so that a new leader switches it off
// in time.
func (a *attempt) identify(p providers.Identifier, s *holdfastv1.Identify) action {
	return action{
		before: func(ctx context.Context) (map[string]string, error) {
			light, err := p.Light(ctx, a.machine)
			return map[string]string{proofLocator: string(light)}, err
		},
		do: func(ctx context.Context) error {
			long, err := a.lightTime(s)
			switch {
			case err != nil:
				return err
			case s.GetOff():
				return a.turnLight(ctx, p, providers.LightOff)
			}
			until, err := time.Parse(time.RFC3339Nano, a.seen[proofLitUntil])
			if err != nil { // it is not recorded yet
				if err := a.turnLight(ctx, p, providers.LightOn); err != nil || long == 0 {
					return err
				}
				until = time.Now().Add(long)
				if err := a.record(ctx, map[string]string{proofLitUntil: stamp(until)}); err != nil {
					return err
				}
			}
			err = a.poll(ctx, "the end of the light's time", func(context.Context) (bool, error) {
				return !time.Now().Before(until), nil
			})
			if err == nil {
				return a.turnLight(ctx, p, providers.LightOff)
			}
			if errors.Is(context.Cause(a.live), errCanceled) { //nolint:contextcheck // the run's context has the cause of its end
				a.switchLightOff(p) //nolint:contextcheck // the attempt's context has ended, the term's has not
			}
			return err
		},
	}
}

// lightTime returns how long the light is to be on, or zero if there is no limit.
func (a *attempt) lightTime(s *holdfastv1.Identify) (time.Duration, error) {
	long := time.Duration(s.GetForSeconds()) * time.Second
	if asked := a.run.GetParams()["for"]; long == 0 && asked != "" {
		var err error
		if long, err = time.ParseDuration(asked); err != nil || long <= 0 || long > time.Hour {
			return 0, providers.Errorf(providers.Unsupported, "switch the locator light",
				"parameter \"for\" is %q: it must be a duration of at most 1h, such as 5m", asked)
		}
	}
	return long, nil
}

// turnLight sets the light to the wanted state. Some BMCs do not report the state of the
// light: then it relies on their answer to the request.
func (a *attempt) turnLight(ctx context.Context, p providers.Identifier, want providers.LightState) error {
	var got providers.LightState
	is := func(ctx context.Context) (bool, error) {
		var err error
		got, err = p.Light(ctx, a.machine)
		return err == nil && got == want, err
	}
	if err := a.settle(ctx, is); err != nil {
		return err
	}
	done, err := is(ctx)
	if err != nil {
		return err
	}
	if a.message = "light was already " + string(want); !done {
		err := a.effect(ctx, "switch the locator light "+string(want), func(ctx context.Context) error {
			return p.Identify(ctx, a.op, a.machine, want == providers.LightOn)
		})
		if err != nil {
			return err
		}
		a.message = "light is " + string(want)
		err = a.poll(ctx, "the light to be "+string(want), func(ctx context.Context) (bool, error) {
			ok, err := is(ctx)
			return ok || err == nil && got == providers.LightUnknown, err
		})
		if err != nil {
			return err
		}
	}
	a.prove(map[string]string{proofLocator: string(want)})
	if got == providers.LightUnknown {
		a.prove(map[string]string{"light_read_back": "the BMC does not report it"})
	}
	return nil
}

// switchLightOff switches the light off after its run was canceled.
func (a *attempt) switchLightOff(p providers.Identifier) {
	ctx, stop := context.WithTimeout(a.whole, killTime)
	defer stop()
	err := a.effect(ctx, "switch the locator light off", func(ctx context.Context) error {
		return p.Identify(ctx, a.op, a.machine, false)
	})
	if err != nil {
		a.say("cannot switch the locator light off: %v", err)
	}
}

// cleanupLight is switchLightOff for an attempt that an earlier leader left open.
func (a *attempt) cleanupLight(ctx context.Context) error {
	provider, err := a.providers.Of(a.machine)
	if err != nil {
		return nil //nolint:nilerr // the machine has no provider: the run ends all the same
	}
	p, ok := provider.(providers.Identifier)
	if !ok || a.step.GetIdentify() == nil || a.step.GetIdentify().GetOff() || a.adopted == nil {
		return nil
	}
	if err := a.adopt(ctx, killTime); err != nil {
		return err
	}
	a.switchLightOff(p) //nolint:contextcheck // the run's context has ended, the term's has not
	return nil
}

// media inserts or ejects the image of the virtual drive, and reads the drive back. It is
// idempotent: an image that is already inserted stays, another one is ejected first.
func (a *attempt) media(p providers.MediaController, s *holdfastv1.Media) action {
	want := ""
	if !s.GetEject() {
		want = a.param(s.GetUrl(), "url")
	}
	var got string
	holds := func(url string) func(context.Context) (bool, error) {
		return func(ctx context.Context) (bool, error) {
			var err error
			got, err = p.Media(ctx, a.machine)
			return err == nil && providers.SameMedium(got, url), err
		}
	}
	return action{
		before: func(ctx context.Context) (map[string]string, error) {
			got, err := p.Media(ctx, a.machine)
			return map[string]string{"media": shownURL(got)}, err
		},
		do: func(ctx context.Context) error {
			if !s.GetEject() {
				if err := cmp.Or(fsm.CheckMediaURL(want), a.cfg.DenyURL(want)); err != nil {
					return providers.Errorf(providers.Unsupported, "insert virtual media",
						"the URL %w: set it in the step or as the run's parameter url", err)
				}
			}
			if err := a.settle(ctx, holds(want)); err != nil {
				return err
			}
			done, err := holds(want)(ctx)
			if err != nil {
				return err
			}
			if a.message = "virtual drive already held " + shownURL(want); !done {
				if err := a.changeMedia(ctx, p, got, want, holds); err != nil {
					return err
				}
				a.message = "virtual drive holds " + shownURL(want)
			}
			a.prove(map[string]string{"media": shownURL(want)})
			return nil
		},
	}
}

func (a *attempt) changeMedia(
	ctx context.Context,
	p providers.MediaController,
	is, want string,
	holds func(string) func(context.Context) (bool, error),
) error {
	if is != "" {
		err := a.effect(ctx, "eject "+shownURL(is), func(ctx context.Context) error {
			return p.EjectMedia(ctx, a.op, a.machine)
		})
		if err != nil {
			return err
		}
		if err := a.poll(ctx, "the virtual drive to be empty", holds("")); err != nil || want == "" {
			return err
		}
	}
	err := a.effect(ctx, "insert "+shownURL(want), func(ctx context.Context) error {
		return p.InsertMedia(ctx, a.op, a.machine, want)
	})
	if err != nil {
		return err
	}
	return a.poll(ctx, "the virtual drive to hold the image", holds(want))
}

// shownURL returns a URL without the parts that may be secret: user, password and query.
func shownURL(s string) string {
	if s == "" {
		return "nothing"
	}
	u, err := url.Parse(s)
	if err != nil {
		return "an image"
	}
	u.User = nil
	if u.RawQuery != "" {
		u.RawQuery = "…"
	}
	return task.Clean(providers.HideMedium(u.String()))
}

// The evidence of a reset of a BMC.
const (
	proofResetAt = "bmc_reset_at"
	proofAway    = "bmc_away"
)

// resetBMC restarts the BMC, observes that it goes away and waits until it answers again.
// The provider knows the time of the last reset, so a new leader does not reset it again.
func (a *attempt) resetBMC(p providers.BMCResetter, look providers.Inspector) action {
	lastReset := func(ctx context.Context) (string, error) {
		at, err := p.BMCResetAt(ctx, a.machine)
		if err != nil || at.IsZero() {
			return "never", err
		}
		return at.UTC().Format(time.RFC3339Nano), nil
	}
	asked := func(ctx context.Context) (bool, error) {
		at, err := lastReset(ctx)
		return err == nil && at != a.before[proofResetAt], err
	}
	return action{
		before: func(ctx context.Context) (map[string]string, error) {
			at, err := lastReset(ctx)
			return map[string]string{proofResetAt: at}, err
		},
		do: func(ctx context.Context) error {
			if err := a.settle(ctx, asked); err != nil {
				return err
			}
			was, err := asked(ctx)
			if err != nil {
				return err
			}
			if !was {
				err := a.effect(ctx, "restart the BMC", func(ctx context.Context) error {
					return p.ResetBMC(ctx, a.op, a.machine)
				})
				if err != nil {
					if was, lookErr := asked(ctx); lookErr != nil || !was {
						return err
					}
					a.say("%v; but it was sent", err)
				}
			}
			return a.bmcComesBack(ctx, look)
		},
	}
}

// bmcComesBack blocks until the BMC has gone away and answers again. A new leader may be
// too late to observe that it is away.
func (a *attempt) bmcComesBack(ctx context.Context, look providers.Inspector) error {
	if a.seen[proofAway] == "" {
		goes, stop := context.WithTimeout(ctx, a.cfg.BMCGoes)
		err := a.poll(goes, "the BMC to go away", func(ctx context.Context) (bool, error) {
			f, err := look.Inspect(ctx, a.machine)
			return err == nil && !f.BMCReachable, err
		})
		timedOut := goes.Err() != nil
		stop()
		switch {
		case err == nil:
			if err := a.record(ctx, map[string]string{proofAway: "true"}); err != nil {
				return err
			}
		case ctx.Err() != nil || a.broken != nil || !timedOut:
			return err
		case a.adopted == nil:
			return &failure{fmt.Errorf("the BMC accepted the reset, but did not go away within %s: it may have ignored it",
				a.cfg.BMCGoes)}
		default:
			a.prove(map[string]string{proofAway: "not seen"})
		}
	}
	err := a.poll(ctx, "the BMC to answer again", func(ctx context.Context) (bool, error) {
		f, err := look.Inspect(ctx, a.machine)
		return err == nil && f.BMCReachable, err
	})
	if err == nil {
		a.prove(map[string]string{"bmc_reachable": "true"})
		a.message = "BMC answers again"
	}
	return err
}
