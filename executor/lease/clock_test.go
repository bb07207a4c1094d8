package lease

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// The lease clock counts the time in which the leader could receive heartbeats: a pause
// counts at most as one step.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock(time.Hour, time.Now())
		for _, step := range []struct{ slept, want time.Duration }{
			{0, time.Hour},
			{250 * time.Millisecond, time.Hour + 250*time.Millisecond},
			{time.Second, time.Hour + 1250*time.Millisecond},
			{time.Minute, time.Hour + 2250*time.Millisecond}, // stopped process
			{10 * time.Millisecond, time.Hour + 2260*time.Millisecond},
		} {
			time.Sleep(step.slept) // sleep: in bubble time
			if got := c.now(); got != step.want {
				t.Errorf("after %v: got %v, want %v", step.slept, got, step.want)
			}
		}
	})
}

// The requested intervals follow the load (POOLREG-18022).
func TestRequestedIntervals(t *testing.T) {
	for _, tc := range []struct {
		load          float64
		quiet         bool
		pool, machine time.Duration
	}{
		{0, false, 10 * time.Second, time.Minute},
		{0, true, 30 * time.Second, time.Minute},
		{50, false, 10 * time.Second, time.Minute},
		{500, false, 5 * time.Second, time.Minute},
		{6000, false, 5 * time.Second, 90 * time.Second},
	} {
		if got := asked(internalv1.LeaseRef_POOL, tc.load, tc.quiet); got != tc.pool {
			t.Errorf("pool at load %v: got %v, want %v", tc.load, got, tc.pool)
		}
		if got := asked(internalv1.LeaseRef_MACHINE, tc.load, tc.quiet); got != tc.machine {
			t.Errorf("machine at load %v: got %v, want %v", tc.load, got, tc.machine)
		}
	}
}

// The meter follows the load within seconds, but does not report quiet before it has
// measured for a minute.
func TestMeter(t *testing.T) {
	var m meter
	now := time.Unix(0, 0)
	run := func(d time.Duration, perSecond int) {
		for range d / time.Second {
			m.count += perSecond
			now = now.Add(time.Second)
			m.tick(now)
		}
	}
	m.tick(now)
	run(30*time.Second, 0)
	if m.quiet() {
		t.Error("got quiet after 30 s")
	}
	run(31*time.Second, 0)
	if !m.quiet() {
		t.Error("got not quiet after a minute of silence")
	}
	run(40*time.Second, 1000)
	if m.load < 900 || m.load > 1000 || m.quiet() {
		t.Errorf("after 40 s of 1000 per second: got load %v, quiet %v", m.load, m.quiet())
	}
	run(200*time.Second, 0)
	if m.load > 1 || !m.quiet() {
		t.Errorf("after 200 s of silence: got load %v, quiet %v", m.load, m.quiet())
	}
}

// However many agents send one heartbeat per minute, there are few log entries, and the wait for a
// commit is far below the time after which a leader counts as hung.
func TestGapFor(t *testing.T) {
	for _, n := range []int{0, 1, 10, 100, 600, 1000, 5000, 10_000, 30_000, 100_000, 1_000_000} {
		gap := gapFor(n).Seconds()
		if rate := min(float64(n)/60, 1/gap); rate > 11 {
			t.Errorf("%d leases: got %.1f entries per second, want at most 11", n, rate)
		}
		if gap > 0.7*lostAfter.Seconds() {
			t.Errorf("%d leases: got a wait of %.2f s, but a leader without an answer for %s counts as hung", n, gap, lostAfter)
		}
	}
	if got := 1 / gapFor(spacingFleet).Seconds(); got > 0.85 {
		t.Errorf("%d leases: got %.2f entries per second, want 0.8, because of other entries", spacingFleet, got)
	}
}
