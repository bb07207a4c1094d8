package executor

import (
	"context"
	"hash/fnv"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// pacer spaces the calls that looks make at one provider, and those of all providers together: two
// calls are never closer than a second divided by the budget, so that no second has more of them
// than the budget says, whenever it begins. Calls of one provider that wait for its own budget take
// nothing of the common one.
type pacer struct {
	gap   time.Duration // between two calls of the provider; zero: any number
	all   *rate.Limiter // of all providers; nil: none
	spent func(waited time.Duration)

	turn chan struct{} // held by the call that waits for its time
	mu   sync.Mutex
	next time.Time // the earliest time of the next call
}

func newPacer(perSecond int, all *rate.Limiter, spent func(time.Duration)) *pacer {
	p := &pacer{all: all, spent: spent, turn: make(chan struct{}, 1)}
	if perSecond > 0 {
		p.gap = gapOf(perSecond)
	}
	return p
}

// gapOf returns the least time between two of so many calls a second. It is rounded up: the first
// call of the next second must not fall into this one.
func gapOf(perSecond int) time.Duration { return time.Second/time.Duration(perSecond) + 1 }

// wait returns when a call may be made. Its error is that of the context.
func (p *pacer) wait(ctx context.Context) error {
	began := time.Now()
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-p.turn }()
	p.mu.Lock()
	next := p.next
	p.mu.Unlock()
	if err := sleep(ctx, time.Until(next)); err != nil {
		return err
	}
	if p.all != nil {
		r := p.all.Reserve()
		if err := sleep(ctx, r.Delay()); err != nil {
			r.Cancel()
			return err
		}
	}
	now := time.Now() // the time of the call, and not the one that was planned: else those that were held up would come closer together
	p.mu.Lock()
	p.next = now.Add(p.gap)
	p.mu.Unlock()
	p.spent(now.Sub(began))
	return nil
}

// slotAfter returns the first time after t at which a machine is to be looked at: each has its own
// place in every period of the wall clock. So looks are spread evenly, and the next leader goes on
// where the last one stopped instead of looking at all machines at once.
func slotAfter(id string, period time.Duration, t time.Time) time.Time {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // it has no error
	// FNV's low bits differ most between names that are alike.
	x := h.Sum64()
	x ^= x >> 32
	x *= 0x9e3779b97f4a7c15
	place := time.Duration(float64(x>>11) / (1 << 53) * float64(period))
	begun := t.Truncate(period) // of the zero time, which is as good as any: all peers have the same
	slot := begun.Add(place)
	if !slot.After(t) {
		slot = slot.Add(period)
	}
	return slot
}

// stretched returns the period in which so many calls fit into a budget with a tenth to spare. It
// goes up in steps of a quarter: with each other period all machines get other places.
func stretched(period time.Duration, calls, perSecond int) time.Duration {
	for perSecond > 0 && float64(calls) > 0.9*float64(perSecond)*period.Seconds() {
		period += period / 4
	}
	return period
}
