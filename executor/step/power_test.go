package step

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
)

// scripted is a BMC that counts the readings of its power.
type scripted struct {
	providers.PowerController

	state providers.PowerState
	reads int
}

func (s *scripted) PowerState(context.Context, *holdfastv1.Machine) (providers.PowerState, error) {
	s.reads++
	return s.state, nil
}

// TestMustPress turns the power on. The BMC shows that it is on by now, so a decision by the
// earlier reading is visible as a press.
func TestMustPress(t *testing.T) {
	const on, off = providers.PowerOn, providers.PowerOff
	for name, tt := range map[string]struct {
		last    providers.PowerState
		age     time.Duration
		adopted bool
		press   bool
		reads   int
	}{
		"recent reading of off":              {off, readingValid - time.Millisecond, false, true, 0},
		"old reading of off":                 {off, readingValid, false, false, 1},
		"recent reading of on":               {on, 0, false, false, 1},
		"no reading":                         {providers.PowerUnknown, 0, false, false, 1},
		"recent reading, adopted attempt":    {off, 0, true, false, 1},
		"recent unknown state of the system": {"paused", 0, false, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bmc := &scripted{state: on}
				a := &powerStep{Attempt: &Attempt{Adopted: tt.adopted}, bmc: bmc, last: reading{tt.last, time.Now()}}
				time.Sleep(tt.age) // sleep: fake clock
				press, err := a.mustPress(t.Context(), on)
				if err != nil || press != tt.press || bmc.reads != tt.reads {
					t.Errorf("got press %v after %d readings (%v), want %v after %d", press, bmc.reads, err, tt.press, tt.reads)
				}
			})
		})
	}
}
