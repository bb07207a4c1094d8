package pid1

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

const (
	// leastWait is between two questions for more time, however short a lease is.
	leastWait = 5 * time.Second
	// lateWait is between them when the lease is over.
	lateWait = time.Minute
)

// lessor is where an address comes from. Both give how long it is this machine's from then on.
type lessor interface {
	// Renew asks who gave the address.
	Renew(ctx context.Context) (time.Duration, error)
	// Again asks everybody, for the same address.
	Again(ctx context.Context) (time.Duration, error)
}

// Lease is what keeps an address: an installation takes hours, and networks that machines boot from
// lend for minutes. After that somebody else may get it.
type Lease struct {
	from   lessor // nil: the address is not lent
	length time.Duration
	log    *slog.Logger
}

// Run renews the lease after half of its time, as RFC 2131 (§4.4.5) wants it, until the context
// ends. When nobody answers the address stays, and half of the time that is left later they are
// asked again: an address that nobody lends is better than none in the middle of an image.
func (l *Lease) Run(ctx context.Context) error {
	if l.from == nil {
		return nil
	}
	left := l.length
	for {
		wait := max(left/2, leastWait)
		if left <= 0 {
			wait = lateWait
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		got, err := l.from.Renew(ctx)
		if err != nil && ctx.Err() == nil {
			var lost error
			if got, lost = l.from.Again(ctx); lost == nil {
				err = nil
			} else {
				err = errors.Join(err, lost)
			}
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			left -= wait
			l.log.Warn("the address was not renewed, trying on with it", "lease_left", max(left, 0), "error", err)
		default:
			left = got
		}
	}
}
