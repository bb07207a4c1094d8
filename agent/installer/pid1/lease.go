package pid1

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

const (
	// leastWait is the minimum time between two requests, however short the DHCP lease is.
	leastWait = 5 * time.Second
	// lateWait is the time between requests after the DHCP lease has expired.
	lateWait = time.Minute
)

// lessor renews an address. Both methods return for how long the address is valid from then
// on.
type lessor interface {
	// Renew sends a request to the server that assigned the address.
	Renew(ctx context.Context) (time.Duration, error)
	// Again sends a request for the same address to all servers.
	Again(ctx context.Context) (time.Duration, error)
}

// Lease keeps an address. An installation takes hours, while DHCP leases in boot networks
// last minutes. After that the address may be assigned to another machine.
type Lease struct {
	from   lessor // nil: the address is static
	length time.Duration
	log    *slog.Logger
}

// Run renews the DHCP lease after half of its time, as RFC 2131 (§4.4.5) requires, until
// the context ends. If no server answers, Run keeps the address and retries after half of
// the remaining time. During a download, an expired address is better than none.
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
			l.log.Warn("cannot renew the address, will keep it and retry", "lease_left", max(left, 0), "error", err)
		default:
			left = got
		}
	}
}
