package lease

import (
	"math/rand/v2"
	"time"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Heartbeat intervals that the server requests from clients (POOLREG-18022;
// docs/clients.md, 001). Load is the number of heartbeats a second that the leader
// receives.
const (
	quietLoad    = 1
	quietFor     = time.Minute // with at most quietLoad; a new leader has not measured anything yet
	highLoad     = 500
	overloadRate = 5000 // machines are asked to slow down from here on

	poolNormal = 10 * time.Second
	poolHigh   = 5 * time.Second
	poolQuiet  = 30 * time.Second

	machineNormal = time.Minute
	machineSlow   = 90 * time.Second
	serviceNormal = 10 * time.Second

	missedHeartbeats = 3 // a pool is lost after this many in a row
)

// asked returns the heartbeat interval to request at the given load.
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
	if load >= overloadRate {
		return machineSlow
	}
	return machineNormal
}

// spread returns an interval that varies by up to a tenth, so that machines that
// reconnected together do not stay in step. The intervals of pools are part of their API
// and stay exact.
func spread(kind internalv1.LeaseRef_Kind, interval time.Duration) time.Duration {
	if kind != internalv1.LeaseRef_MACHINE || interval < time.Second {
		return interval
	}
	return interval - interval/10 + rand.N(interval/5) //nolint:gosec // no secret
}

// meter measures the load as a moving average over about ten seconds.
type meter struct {
	count    int // since the last tick
	load     float64
	last     time.Time // of the last tick
	lastBusy time.Time // of the last tick with more than quietLoad
}

// quiet reports whether the load has been at most quietLoad for quietFor.
func (m *meter) quiet() bool { return m.last.Sub(m.lastBusy) >= quietFor }

// tick ends a measuring period.
func (m *meter) tick(now time.Time) {
	if m.last.IsZero() {
		m.last, m.lastBusy = now, now
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
		m.lastBusy = now
	}
}
