package rest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// Backoff is the wait between tries: Base, doubled after each failure up to Max.
type Backoff struct {
	Base time.Duration
	Max  time.Duration
}

// Ceiling returns the longest wait after the given number of failures in a row, from 1.
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

// Delay returns the wait after the given number of failures in a row: between half of
// Ceiling and all of it. The lower half protects a failing server, and the random half
// spreads clients that failed together.
func (b Backoff) Delay(failures int) time.Duration {
	d := b.Ceiling(failures)
	return d - Chance(d/2)
}

// Repeat runs sessions until the context ends. It backs off if they end before they have worked:
// a server may accept a registration and then deny it.
func Repeat(ctx context.Context, b Backoff, session func(context.Context) (worked bool)) {
	for failed := 0; ctx.Err() == nil; failed++ {
		if failed > 1 && Sleep(ctx, b.Delay(failed-1)) != nil {
			return
		}
		if session(ctx) {
			failed = 0
		}
	}
}

// FarewellTimeout bounds Farewell (POOLREG-18051).
const FarewellTimeout = 5 * time.Second

// Farewell repeats the last request of a client until it is final. It reports false if that takes
// longer than FarewellTimeout.
func Farewell(ctx context.Context, request func(context.Context) (final bool)) bool {
	ctx, cancel := context.WithTimeoutCause(ctx, FarewellTimeout, fmt.Errorf("not done within %s", FarewellTimeout))
	defer cancel()
	b := Backoff{Base: 100 * time.Millisecond, Max: time.Second}
	for try := 1; !request(ctx); try++ {
		if Sleep(ctx, b.Delay(try)) != nil {
			return false
		}
	}
	return true
}

// Early shortens an interval by up to a tenth, so that clients started together drift
// apart. It never lengthens it, because the server counts missed intervals.
func Early(interval time.Duration) time.Duration { return interval - Chance(interval/10) }

// Chance returns a random time from zero to limit.
func Chance(limit time.Duration) time.Duration {
	if limit <= 0 {
		return 0
	}
	return rand.N(limit + 1)
}

// Sleep waits for d. If the context ends first, it returns the cause.
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
