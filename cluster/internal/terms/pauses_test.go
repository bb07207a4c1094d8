package terms

import (
	"slices"
	"testing"
	"time"
)

// A leader whose tasks always fail calls elections at growing intervals. One whose tasks ran for a
// while restarts soon.
func TestPausesAfterFailedTasks(t *testing.T) {
	const s = time.Second
	for _, tc := range []struct {
		name         string
		lasted, want []time.Duration
	}{
		{"once", []time.Duration{s}, []time.Duration{s}},
		{"always at once", []time.Duration{0, 0, 0, 0, 0, 0, 0}, []time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 30 * s,
			30 * s}},
		{"reset after a while", []time.Duration{0, 0, 59 * s, 60 * s, 0}, []time.Duration{s, 2 * s, 4 * s, s, 2 * s}},
		{"rarely", []time.Duration{time.Hour, time.Hour}, []time.Duration{s, s}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := after(tc.lasted...); !slices.Equal(got, tc.want) {
				t.Errorf("got pauses %v, want %v", got, tc.want)
			}
		})
	}
}

// after returns the pauses after successive work that failed after these durations.
func after(lasted ...time.Duration) (all []time.Duration) {
	var p pauses
	for _, d := range lasted {
		all = append(all, p.next(d))
	}
	return all
}
