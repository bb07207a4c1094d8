// Package lifetime is the table of the lifetimes of leases, and of the intervals between the
// heartbeats that renew them. Commands, the lease engine and the API read them here, and a test
// finds such numbers elsewhere. It must not read the state.
//
// Apply reads the table for leases that come without a command of their own, as that of a service
// that pings again. Such a value therefore changes together with a feature level.
package lifetime

import (
	"time"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// The lifetimes, one for each kind of lease. They last without another heartbeat.
const (
	machineTTL = 5 * time.Minute // of the machine registration API
	pendingTTL = time.Hour       // a machine that waits for its agent
	poolTTL    = 15 * time.Second
	serviceTTL = 90 * time.Second
	installTTL = 2 * time.Hour // twice the time after which a node counts as stalled
)

// InstallLimit bounds all attempts of an observed install together, even if it keeps reporting. If
// three times the timeout of the workflow's install step is longer, that applies.
const InstallLimit = 24 * time.Hour

// The intervals between heartbeats (POOLREG-18010, POOLREG-18022; docs/clients.md, 001).
const (
	machineInterval = time.Minute
	machineSlow     = 90 * time.Second
	poolInterval    = 10 * time.Second
	poolFast        = 5 * time.Second
	poolSlow        = 30 * time.Second
	serviceInterval = 10 * time.Second // clients ping every 5 to 30 s
)

// missedByPool is the number of heartbeats in a row after which a pool is lost (POOLREG-18021).
const missedByPool = 3

// Lifetime is how long the leases of a kind last, and how often they are renewed.
type Lifetime struct {
	TTL      time.Duration // without another heartbeat
	Interval time.Duration // that the server requests; 0: none
	HighLoad time.Duration // the interval while the leader receives many heartbeats
	LowLoad  time.Duration // the interval while it receives hardly any
	// Missed is the number of requested intervals that the lease lasts at least; 0: only its TTL
	// counts.
	Missed int
}

// Of returns the lifetime of the leases of a kind.
func Of(kind internalv1.LeaseRef_Kind) Lifetime {
	switch kind {
	case internalv1.LeaseRef_POOL:
		return Lifetime{TTL: poolTTL, Interval: poolInterval, HighLoad: poolFast, LowLoad: poolSlow, Missed: missedByPool}
	case internalv1.LeaseRef_SERVICE:
		return Lifetime{TTL: serviceTTL, Interval: serviceInterval, HighLoad: serviceInterval, LowLoad: serviceInterval}
	case internalv1.LeaseRef_PENDING_MACHINE:
		return Lifetime{TTL: pendingTTL}
	case internalv1.LeaseRef_INSTALL:
		return Lifetime{TTL: installTTL}
	}
	return Lifetime{TTL: machineTTL, Interval: machineInterval, HighLoad: machineSlow, LowLoad: machineInterval}
}

// Last returns how long a lease with a TTL lasts, if its owner was requested to send heartbeats at
// an interval.
func (l Lifetime) Last(ttl, interval time.Duration) time.Duration {
	return max(ttl, time.Duration(l.Missed)*interval)
}
