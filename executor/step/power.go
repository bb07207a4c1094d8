package step

import (
	"context"
	"time"

	"github.com/holdfast-metal/holdfast/executor/fence"
	"github.com/holdfast-metal/holdfast/providers"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// The evidence of power changes.
const (
	evidencePower   = "power"
	evidenceBootID  = "boot_id"
	evidenceOffSeen = "power_off_seen"

	// A soft off, recorded before it is requested.
	evidenceSoftOff   = "soft_off_at"
	evidenceSoftUntil = "soft_off_until"
	evidenceSoftSent  = "soft_off_sent_at"  // the BMC accepted the request
	evidenceSoftRetry = "soft_off_retry_at" // the second request, if the outcome of the first is unknown
)

// powerStep reads and changes the power of a machine through its BMC.
type powerStep struct {
	*Attempt
	bmc  providers.PowerController
	last reading
}

// power turns the power on, off, or off and on. On and off are idempotent. For a cycle,
// it records that the power was seen off before it turns the power on again, so that it
// cannot happen twice.
func (a *powerStep) power(s *holdfastv1.Power) Action {
	how := a.stopping(a.flag(s.GetForce(), "force"), s.GetShutdownSeconds())
	return Action{
		Reads: "power",
		Before: func(ctx context.Context) (map[string]string, error) {
			state, err := a.read(ctx)
			return map[string]string{evidencePower: string(state), "action": s.GetAction()}, err
		},
		Do: func(ctx context.Context) error {
			switch s.GetAction() {
			case "on":
				return a.turn(ctx, providers.PowerOn, stopping{})
			case "off":
				return a.turn(ctx, providers.PowerOff, how)
			}
			a.resume()
			if a.Before[evidencePower] != string(providers.PowerOff) && a.Seen[evidenceOffSeen] == "" {
				if err := a.turn(ctx, providers.PowerOff, how); err != nil {
					return err
				}
				if err := a.Record(ctx, map[string]string{evidenceOffSeen: stamp(time.Now())}); err != nil {
					return err
				}
			}
			return a.turn(ctx, providers.PowerOn, stopping{})
		},
	}
}

// turn sets the power to the wanted state. It first waits for the result of a press that
// an earlier leader may have sent. how is only used to turn it off.
func (a *powerStep) turn(ctx context.Context, want providers.PowerState, how stopping) error {
	if err := a.settle(ctx, a.is(want)); err != nil {
		return err
	}
	press, err := a.mustPress(ctx, want)
	if err != nil {
		return err
	}
	if a.Message = "power was already " + string(want); press {
		if want == providers.PowerOn {
			err = a.powerOn(ctx)
		} else {
			err = a.powerOff(ctx, how)
		}
		a.Message = "power is " + string(want)
	}
	if err == nil {
		a.AddEvidence(map[string]string{evidencePower: string(want)})
	}
	return err
}

// powerOn presses the power button of a machine that is off, once it is its turn.
func (a *powerStep) powerOn(ctx context.Context) error {
	if err := a.awaitTurn(ctx); err != nil {
		return err
	}
	return a.pressAndWait(ctx, providers.ActionOn)
}

// readingValid is the age up to which a reading of the power may decide that a button is to be
// pressed. It is the time for which a confirmation of the term permits an effect.
const readingValid = fence.EffectValid

// reading is the last power state that this leader has read in the attempt, since its last press.
type reading struct {
	state providers.PowerState
	at    time.Time // before the BMC was asked
}

// read reads the power state from the BMC.
func (a *powerStep) read(ctx context.Context) (providers.PowerState, error) {
	asked := time.Now()
	state, err := a.bmc.PowerState(ctx, a.Machine)
	if err == nil {
		a.last = reading{state, asked}
	}
	return state, err
}

// is returns a condition that reads the power state and reports whether it is the wanted one.
func (a *powerStep) is(want providers.PowerState) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		state, err := a.read(ctx)
		return state == want, err
	}
}

// mustPress reports whether a button has to be pressed for the wanted power state. A recent
// reading of the opposite is enough, because the evidence is read after the press. That no press is
// needed is evidence, so it is read now. An adopted attempt always reads now: a press of the
// earlier leader may have taken effect since its last reading.
func (a *powerStep) mustPress(ctx context.Context, want providers.PowerState) (bool, error) {
	known := a.last.state == providers.PowerOn || a.last.state == providers.PowerOff
	if !a.Adopted && known && a.last.state != want && time.Since(a.last.at) < readingValid {
		return true, nil
	}
	state, err := a.read(ctx)
	return state != want, err
}
