package step

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
	evidenceLocator  = "light"
	evidenceLitUntil = "lit_until"
)

// lightStep switches a locator light.
type lightStep struct{ *Attempt }

// identify switches the locator light, which is idempotent. If the light is to be on for
// a limited time, the end of that time is recorded, so that a new leader switches it off
// in time.
func (a lightStep) identify(p providers.Identifier, s *holdfastv1.Identify) Action {
	return Action{
		Reads: "locator light",
		Before: func(ctx context.Context) (map[string]string, error) {
			light, err := p.Light(ctx, a.Machine)
			return map[string]string{evidenceLocator: string(light)}, err
		},
		Do: func(ctx context.Context) error {
			if s.GetOff() {
				return a.turnLight(ctx, p, providers.LightOff)
			}
			long := a.lightTime(s)
			until, err := time.Parse(time.RFC3339Nano, a.Seen[evidenceLitUntil])
			if err != nil { // it is not recorded yet
				if err := a.turnLight(ctx, p, providers.LightOn); err != nil || long == 0 {
					return err
				}
				until = time.Now().Add(long)
				if err := a.Record(ctx, map[string]string{evidenceLitUntil: stamp(until)}); err != nil {
					return err
				}
			}
			err = a.Poll(ctx, waitOf(holdfastv1.Wait_TIMER, "light"), func(context.Context) (bool, error) {
				return !time.Now().Before(until), nil
			})
			if err == nil {
				return a.turnLight(ctx, p, providers.LightOff)
			}
			if errors.Is(context.Cause(a.Life), ErrCanceled) { //nolint:contextcheck // the run's context has the cause of its end
				a.switchLightOff(p) //nolint:contextcheck // the attempt's context has ended, the term's has not
			}
			return err
		},
	}
}

// lightTime returns how long the light is to be on, or zero if there is no limit.
func (a lightStep) lightTime(s *holdfastv1.Identify) time.Duration {
	return cmp.Or(time.Duration(s.GetForSeconds())*time.Second, a.values.Duration("for"))
}

// turnLight sets the light to the wanted state. Some BMCs do not report the state of the
// light: then it relies on their answer to the request.
func (a lightStep) turnLight(ctx context.Context, p providers.Identifier, want providers.LightState) error {
	var got providers.LightState
	is := func(ctx context.Context) (bool, error) {
		var err error
		got, err = p.Light(ctx, a.Machine)
		return err == nil && got == want, err
	}
	if err := a.settle(ctx, is); err != nil {
		return err
	}
	done, err := is(ctx)
	if err != nil {
		return err
	}
	if a.Message = "light was already " + string(want); !done {
		err := a.Effect(ctx, "switch the locator light "+string(want), func(ctx context.Context) error {
			return p.Identify(ctx, a.Op, a.Machine, want == providers.LightOn)
		})
		if err != nil {
			return err
		}
		a.Message = "light is " + string(want)
		err = a.Poll(ctx, effect("light", string(want)), func(ctx context.Context) (bool, error) {
			ok, err := is(ctx)
			return ok || err == nil && got == providers.LightUnknown, err
		})
		if err != nil {
			return err
		}
	}
	a.AddEvidence(map[string]string{evidenceLocator: string(want)})
	if got == providers.LightUnknown {
		a.AddEvidence(map[string]string{"light_read_back": "the BMC does not report it"})
	}
	return nil
}

// switchLightOff switches the light off after its run was canceled.
func (a lightStep) switchLightOff(p providers.Identifier) {
	ctx, stop := context.WithTimeout(a.Term, a.toEnd(killTime))
	defer stop()
	err := a.Effect(ctx, "switch the locator light off", func(ctx context.Context) error {
		return p.Identify(ctx, a.Op, a.Machine, false)
	})
	if err != nil {
		a.Say("cannot switch the locator light off: %v", err)
	}
}

// cleanupLight is switchLightOff for an attempt that an earlier leader left open.
func (a lightStep) cleanupLight(ctx context.Context) error {
	p, ok := a.Provider.(providers.Identifier)
	if !ok || a.Step.GetIdentify() == nil || a.Step.GetIdentify().GetOff() {
		return nil
	}
	if err := a.Adopt(ctx, killTime); err != nil {
		return err
	}
	a.switchLightOff(p) //nolint:contextcheck // the run's context has ended, the term's has not
	return nil
}

// media inserts or ejects the image of the virtual drive, and reads the drive back. It is
// idempotent: an image that is already inserted stays, another one is ejected first.
func (a *Attempt) media(p providers.MediaController, s *holdfastv1.Media) Action {
	want := ""
	if !s.GetEject() {
		want = a.param(s.GetUrl(), "url")
	}
	var got string
	holds := func(url string) func(context.Context) (bool, error) {
		return func(ctx context.Context) (bool, error) {
			var err error
			got, err = p.Media(ctx, a.Machine)
			return err == nil && providers.SameMedium(got, url), err
		}
	}
	return Action{
		Reads: "virtual media",
		Before: func(ctx context.Context) (map[string]string, error) {
			got, err := p.Media(ctx, a.Machine)
			return map[string]string{"media": shownURL(got)}, err
		},
		Do: func(ctx context.Context) error {
			if !s.GetEject() {
				if err := cmp.Or(fsm.CheckMediaURL(want), a.Config.DenyURL(want)); err != nil {
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
			if a.Message = "virtual drive already held " + shownURL(want); !done {
				if err := a.changeMedia(ctx, p, got, want, holds); err != nil {
					return err
				}
				a.Message = "virtual drive holds " + shownURL(want)
			}
			a.AddEvidence(map[string]string{"media": shownURL(want)})
			return nil
		},
	}
}

func (a *Attempt) changeMedia(
	ctx context.Context,
	p providers.MediaController,
	is, want string,
	holds func(string) func(context.Context) (bool, error),
) error {
	if is != "" {
		err := a.Effect(ctx, "eject "+shownURL(is), func(ctx context.Context) error {
			return p.EjectMedia(ctx, a.Op, a.Machine)
		})
		if err != nil {
			return err
		}
		if err := a.Poll(ctx, effect("virtual drive", "empty"), holds("")); err != nil || want == "" {
			return err
		}
	}
	err := a.Effect(ctx, "insert "+shownURL(want), func(ctx context.Context) error {
		return p.InsertMedia(ctx, a.Op, a.Machine, want)
	})
	if err != nil {
		return err
	}
	return a.Poll(ctx, effect("virtual drive", "loaded"), holds(want))
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
	evidenceResetAt = "bmc_reset_at"
	evidenceAway    = "bmc_away"
)

// resetBMC restarts the BMC, observes that it goes away and waits until it answers again.
// The provider knows the time of the last reset, so a new leader does not reset it again.
func (a *Attempt) resetBMC() (Action, error) {
	inspector, ok := a.Provider.(providers.Inspector)
	if !ok {
		return Action{}, lacks(a, providers.CanInspect)
	}
	p, ok := a.Provider.(providers.BMCResetter)
	if !ok {
		return Action{}, lacks(a, providers.CanReset)
	}
	lastReset := func(ctx context.Context) (string, error) {
		at, err := p.BMCResetAt(ctx, a.Machine)
		if err != nil || at.IsZero() {
			return "never", err
		}
		return at.UTC().Format(time.RFC3339Nano), nil
	}
	asked := func(ctx context.Context) (bool, error) {
		at, err := lastReset(ctx)
		return err == nil && at != a.Before[evidenceResetAt], err
	}
	return Action{
		Reads: "time of the last BMC reset",
		Before: func(ctx context.Context) (map[string]string, error) {
			at, err := lastReset(ctx)
			return map[string]string{evidenceResetAt: at}, err
		},
		Do: func(ctx context.Context) error {
			if err := a.settle(ctx, asked); err != nil {
				return err
			}
			was, err := asked(ctx)
			if err != nil {
				return err
			}
			if !was {
				err := a.Effect(ctx, "restart the BMC", func(ctx context.Context) error {
					return p.ResetBMC(ctx, a.Op, a.Machine)
				})
				if err != nil {
					if was, readErr := asked(ctx); readErr != nil || !was {
						return err
					}
					a.Say("%v; but it was sent", err)
				}
			}
			return a.bmcComesBack(ctx, inspector)
		},
	}, nil
}

// bmcComesBack blocks until the BMC has gone away and answers again. A new leader may be
// too late to observe that it is away.
func (a *Attempt) bmcComesBack(ctx context.Context, inspector providers.Inspector) error {
	if a.Seen[evidenceAway] == "" {
		goes, stop := context.WithTimeout(ctx, a.Config.BMCGoes)
		err := a.Poll(goes, effect(bmc, "away"), func(ctx context.Context) (bool, error) {
			f, err := inspector.Inspect(ctx, a.Machine)
			return err == nil && !f.BMCReachable, err
		})
		timedOut := goes.Err() != nil
		stop()
		switch {
		case err == nil:
			if err := a.Record(ctx, map[string]string{evidenceAway: "true"}); err != nil {
				return err
			}
		case ctx.Err() != nil || a.Broken != nil || !timedOut:
			return err
		case !a.Adopted:
			return &Failure{fmt.Errorf("the BMC accepted the reset, but did not go away within %s: it may have ignored it",
				a.Config.BMCGoes)}
		default:
			a.AddEvidence(map[string]string{evidenceAway: "not seen"})
		}
	}
	err := a.Poll(ctx, answer(bmc, ""), func(ctx context.Context) (bool, error) {
		f, err := inspector.Inspect(ctx, a.Machine)
		return err == nil && f.BMCReachable, err
	})
	if err == nil {
		a.AddEvidence(map[string]string{"bmc_reachable": "true"})
		a.Message = "BMC answers again"
	}
	return err
}
