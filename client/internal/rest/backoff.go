package rest

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff is how long to wait between tries: Base, twice that, four times that, and so on, but
// never more than Max.
type Backoff struct {
	Base time.Duration
	Max  time.Duration
}

// Ceiling is the longest wait after the given number of failures in a row, from 1.
func (b Backoff) Ceiling(failures int) time.Duration {
	d := min(b.Base, b.Max)
	for range failures - 1 {
		if d > b.Max/2 {
			return b.Max
		}
		d *= 2
	}
	return d
}

// Delay is how long to wait after the given number of failures in a row: between half of Ceiling
// and all of it. The half keeps a failing server from being asked again at once; the rest is
// chance, so that clients that failed together do not come back together.
func (b Backoff) Delay(failures int) time.Duration {
	d := b.Ceiling(failures)
	return d - Chance(d/2)
}

// Early shortens an interval by up to a tenth, so that clients started together drift apart. It
// never lengthens it: somebody counts the misses.
func Early(interval time.Duration) time.Duration { return interval - Chance(interval/10) }

// Chance is any time from zero to limit.
func Chance(limit time.Duration) time.Duration {
	if limit <= 0 {
		return 0
	}
	return rand.N(limit + 1)
}

// Sleep waits. It returns early, with the cause, when the context ends.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
