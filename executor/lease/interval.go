package lease

import (
	"math/rand/v2"
	"time"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// What the server asks clients for (POOLREG-18022; docs/clients.md, 001). Load is heartbeats a
// second that the leader takes.
const (
	quietLoad = 1
	quietFor  = time.Minute // of no more than that: a leader who has just begun has not measured anything yet
	highLoad  = 500
	crush     = 5000 // more than this, and machines are asked to slow down

	poolNormal = 10 * time.Second
	poolHigh   = 5 * time.Second
	poolQuiet  = 30 * time.Second

	machineNormal = time.Minute
	machineSlow   = 90 * time.Second
	serviceNormal = 10 * time.Second

	missedBeats = 3 // of a pool, in a row
)

// asked returns the interval between heartbeats that the load calls for.
func asked(kind internalv1.LeaseRef_Kind, load float64, quiet bool) time.Duration {
	switch kind {
	case internalv1.LeaseRef_POOL:
		switch {
		case load >= highLoad:
			return poolHigh
		case quiet:
			return poolQuiet
		}
		return poolNormal
	case internalv1.LeaseRef_SERVICE:
		return serviceNormal
	}
	if load >= crush {
		return machineSlow
	}
	return machineNormal
}

// spread returns about an interval, by a tenth more or less: machines that have come back all at
// once do not stay in step. What pools are asked for is in their document, and exact.
func spread(kind internalv1.LeaseRef_Kind, interval time.Duration) time.Duration {
	if kind != internalv1.LeaseRef_MACHINE || interval < time.Second {
		return interval
	}
	return interval - interval/10 + rand.N(interval/5) //nolint:gosec // no secret
}

// meter measures the load: an average over some ten seconds.
type meter struct {
	count int // since the last tick
	load  float64
	last  time.Time
	loud  time.Time // when there was load last
}

// quiet reports whether there has been hardly any load for long.
func (m *meter) quiet() bool { return m.last.Sub(m.loud) >= quietFor }

// tick closes a measuring period.
func (m *meter) tick(now time.Time) {
	if m.last.IsZero() {
		m.last, m.loud = now, now
		return
	}
	d := now.Sub(m.last).Seconds()
	if d <= 0 {
		return
	}
	weight := min(1, d/10)
	m.load += weight * (float64(m.count)/d - m.load)
	m.count, m.last = 0, now
	if m.load > quietLoad {
		m.loud = now
	}
}
