package step

import (
	"context"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

// readingValid is the age up to which a reading of the power may decide that a button is to be
// pressed. It is the time for which a confirmation of the term permits an effect.
const readingValid = 500 * time.Millisecond

// reading is the last power state that this leader has read in the attempt, since its last press.
type reading struct {
	state providers.PowerState
	at    time.Time // before the BMC was asked
}

// readPower reads the power state from the BMC.
func readPower(ctx context.Context, a *Attempt, power providers.PowerController) (providers.PowerState, error) {
	asked := time.Now()
	state, err := power.PowerState(ctx, a.Machine)
	if err == nil {
		a.lastPower = reading{state, asked}
	}
	return state, err
}

// powerOf returns the power state that facts contain. If they do not, it reads the state.
func powerOf(
	ctx context.Context, a *Attempt, power providers.PowerController, f providers.Facts,
) (providers.PowerState, error) {
	if f.Power != providers.PowerUnknown {
		return f.Power, nil
	}
	return readPower(ctx, a, power)
}

// mustPress reports whether a button has to be pressed for the wanted power state. A recent
// reading of the opposite is enough, because the evidence is read after the press. That no press is
// needed is evidence, so it is read now. An adopted attempt always reads now: a press of the
// earlier leader may have taken effect since its last reading.
func mustPress(
	ctx context.Context, a *Attempt, power providers.PowerController, want providers.PowerState,
) (bool, error) {
	last := a.lastPower
	known := last.state == providers.PowerOn || last.state == providers.PowerOff
	if !a.Adopted && known && last.state != want && time.Since(last.at) < readingValid {
		return true, nil
	}
	is, err := a.powerIs(ctx, power, want)
	return !is, err
}
