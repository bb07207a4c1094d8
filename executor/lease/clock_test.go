package lease

import (
	"testing"
	"testing/synctest"
	"time"
)

// The lease clock counts the time in which the leader could hear: a pause counts for no more than one look.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock(time.Hour, time.Now())
		for _, step := range []struct{ slept, want time.Duration }{
			{0, time.Hour},
			{250 * time.Millisecond, time.Hour + 250*time.Millisecond},
			{time.Second, time.Hour + 1250*time.Millisecond},
			{time.Minute, time.Hour + 2250*time.Millisecond}, // the process was stopped
			{10 * time.Millisecond, time.Hour + 2260*time.Millisecond},
		} {
			time.Sleep(step.slept) // sleep: in bubble time
			if got := c.now(); got != step.want {
				t.Errorf("after %v: got %v, want %v", step.slept, got, step.want)
			}
		}
	})
}

// What is asked for follows the load (POOLREG-18022).
func TestAsked(t *testing.T) {
	for _, tc := range []struct {
		load          float64
		pool, machine time.Duration
	}{
		{0, 30 * time.Second, time.Minute},
		{1, 30 * time.Second, time.Minute},
		{50, 10 * time.Second, time.Minute},
		{500, 5 * time.Second, time.Minute},
		{6000, 5 * time.Second, 90 * time.Second},
	} {
		if got := asked(2, tc.load); got != tc.pool {
			t.Errorf("pool at load %v: got %v, want %v", tc.load, got, tc.pool)
		}
		if got := asked(1, tc.load); got != tc.machine {
			t.Errorf("machine at load %v: got %v, want %v", tc.load, got, tc.machine)
		}
	}
}
