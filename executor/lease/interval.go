package lease

import (
	"math/rand/v2"
	"time"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// The load, in heartbeats a second that the leader receives, at which it requests other
// intervals of clients (POOLREG-18022; docs/clients.md, 001). Machines slow down only when the
// leader is close to its limit.
const (
	quietLoad    = 1
	quietFor     = time.Minute // with at most quietLoad; a new leader has not measured anything yet
	highLoad     = 500
	overloadRate = 5000
)

// asked returns the heartbeat interval to request at the given load.
func asked(kind internalv1.LeaseRef_Kind, load float64, quiet bool) time.Duration {
	lifetime, high := fsm.LifetimeOf(kind), float64(highLoad)
	if kind == internalv1.LeaseRef_MACHINE {
		high = overloadRate
	}
	switch {
	case load >= high:
		return lifetime.HighLoad
	case quiet:
		return lifetime.LowLoad
	}
	return lifetime.Interval
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
