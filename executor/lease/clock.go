package lease

import "time"

// maxStep is the most that the lease clock advances at once. A longer gap between two
// readings is a pause, in which the peer received nothing.
const maxStep = time.Second

// clock is the lease clock of one term. It is not safe for concurrent use.
type clock struct {
	at     time.Duration // on the lease clock
	last   time.Time     // last reading of the leader's monotonic clock
	pauses int           // number of gaps above maxStep
}

func newClock(at time.Duration, now time.Time) *clock { return &clock{at: at, last: now} }

// reset sets the clock back to its committed value.
func (c *clock) reset(at time.Duration) { c.at, c.last = at, time.Now() }

// now advances the clock and returns its time.
func (c *clock) now() time.Duration {
	t := time.Now()
	gap := t.Sub(c.last)
	if gap > maxStep {
		c.pauses++
	}
	c.at += min(max(0, gap), maxStep)
	c.last = t
	return c.at
}
