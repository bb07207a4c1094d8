// Package clock owns the cluster's time on one peer. It must not ask other peers: package cluster
// compares the clocks and passes in the result.
package clock

import (
	"sync/atomic"
	"time"

	"github.com/holdfast-metal/holdfast/fsm"
)

// agreedFor is how long an agreement counts for Latest.
const agreedFor = time.Minute

// Clock is the cluster's time on one peer: the clock on which a majority of the voters agrees,
// continued by this process's monotonic clock. A wrong clock of the host does not move it.
type Clock struct {
	recorded func() time.Time
	agreed   atomic.Pointer[agreement]
}

type agreement struct{ at, seen time.Time }

// New returns a clock. recorded returns the recorded clock of the peer's own state.
func New(recorded func() time.Time) *Clock { return &Clock{recorded: recorded} }

// Now returns the cluster's time. Until this process has compared the clocks, it is the host's
// clock, and the recorded one if the two are far apart. The time of a nil Clock is the host's.
func (c *Clock) Now() time.Time {
	if c == nil {
		return time.Now()
	}
	if a := c.agreed.Load(); a != nil {
		return a.at.Add(time.Since(a.seen))
	}
	own := time.Now()
	if at := c.recorded(); !at.IsZero() && own.Sub(at).Abs() > fsm.MaxClockMove {
		return at
	}
	return own
}

// Latest returns the latest time that it may be: that of Now, or the host's clock unless clocks
// that agree have shown within a minute that this is wrong. Now is behind in a process that was
// down, or whose virtual machine was paused, until it has compared the clocks. It cannot if the
// others refuse its certificate.
func (c *Clock) Latest() time.Time {
	own := time.Now()
	if c == nil {
		return own
	}
	if a := c.agreed.Load(); a != nil && time.Since(a.seen) < agreedFor {
		return c.Now()
	}
	if now := c.Now(); now.After(own) {
		return now
	}
	return own
}

// Doubtful reports whether Now may be wrong. The process has not compared the clocks yet, and the
// host's clock and the recorded one differ, as in a peer that was down. Or the host's clock was
// set, or its virtual machine paused, since it compared them.
func (c *Clock) Doubtful() bool {
	if c == nil {
		return false
	}
	own, since := time.Now(), c.recorded()
	if a := c.agreed.Load(); a != nil {
		// Round removes the monotonic clock, which stands still in a paused machine.
		own, since = own.Round(0), a.seen.Round(0).Add(time.Since(a.seen))
	}
	return !since.IsZero() && own.Sub(since).Abs() > fsm.ClocksAgree
}

// Agree sets the time to one on which a majority of the voters agrees now.
func (c *Clock) Agree(at time.Time) {
	if c != nil {
		c.agreed.Store(&agreement{at: at, seen: time.Now()})
	}
}
