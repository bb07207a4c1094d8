package lease

import "time"

// maxStep is the most that the lease clock moves at once. A gap between two looks at it that is
// longer was a pause: nothing was heard in it.
const maxStep = time.Second

// clock is the lease clock of one leadership. It is not safe for concurrent use.
type clock struct {
	at     time.Duration // on the lease clock
	last   time.Time     // of the leader's monotonic clock
	pauses int           // gaps above maxStep so far
}

func newClock(at time.Duration, now time.Time) *clock { return &clock{at: at, last: now} }

// stand puts the clock back to what is recorded.
func (c *clock) stand(at time.Duration) { c.at, c.last = at, time.Now() }

// now moves the clock on and reads it.
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
