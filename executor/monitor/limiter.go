package monitor

import (
	"context"
	"hash/fnv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/holdfast-metal/holdfast/internal/wait"
)

// limiter limits the rate of calls to one provider, and of all providers together. The gap
// between two calls is at least a second divided by the budget, so that no interval of a
// second exceeds the budget. A call that waits for the budget of its provider does not
// use up the common one.
type limiter struct {
	gap   time.Duration // between two calls to the provider; zero for no limit
	all   *rate.Limiter // common limit of all providers; nil for none
	spent func(waited time.Duration)

	sem  chan struct{} // mutex of the call that waits
	mu   sync.Mutex
	next time.Time // earliest time of the next call
}

func newLimiter(perSecond int, all *rate.Limiter, spent func(time.Duration)) *limiter {
	l := &limiter{all: all, spent: spent, sem: make(chan struct{}, 1)}
	if perSecond > 0 {
		l.gap = gapOf(perSecond)
	}
	return l
}

// gapOf returns the minimum time between two calls at a rate. It is rounded up, so that
// the first call of the next second does not fall into this one.
func gapOf(perSecond int) time.Duration { return time.Second/time.Duration(perSecond) + 1 }

// wait blocks until a call may be made. It returns the error of ctx if that ends first.
func (l *limiter) wait(ctx context.Context) error {
	began := time.Now()
	select {
	case l.sem <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-l.sem }()
	l.mu.Lock()
	next := l.next
	l.mu.Unlock()
	if err := wait.Sleep(ctx, time.Until(next)); err != nil {
		return err
	}
	if l.all != nil {
		r := l.all.Reserve()
		if err := wait.Sleep(ctx, r.Delay()); err != nil {
			r.Cancel()
			return err
		}
	}
	now := time.Now() // not the planned time: otherwise calls after a delayed one would be too close
	l.mu.Lock()
	l.next = now.Add(l.gap)
	l.mu.Unlock()
	l.spent(now.Sub(began))
	return nil
}

// slotAfter returns the first time after t at which a machine is to be polled. Each
// machine has a fixed offset in every period of the wall clock. So polls are spread
// evenly, and a new leader continues the schedule of the last one instead of polling all
// machines at once.
func slotAfter(id string, period time.Duration, t time.Time) time.Time {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // never fails
	// For similar names, the low bits of FNV differ most.
	x := h.Sum64()
	x ^= x >> 32
	x *= 0x9e3779b97f4a7c15
	offset := time.Duration(float64(x>>11) / (1 << 53) * float64(period))
	begun := t.Truncate(period) // since the zero time, which is the same on all peers
	slot := begun.Add(offset)
	if !slot.After(t) {
		slot = slot.Add(period)
	}
	return slot
}

// stretched returns a period in which a number of calls fits into nine tenths of a
// budget. It grows in steps of a quarter, because each change of the period moves all
// machines.
func stretched(period time.Duration, calls, perSecond int) time.Duration {
	for perSecond > 0 && float64(calls) > 0.9*float64(perSecond)*period.Seconds() {
		period += period / 4
	}
	return period
}
