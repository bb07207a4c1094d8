package hedge

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	// First is how long the first target has before another one is tried: longer than an
	// election with the default settings, much shorter than an operator would notice.
	First = 2 * time.Second
	// last bounds First as it doubles while hedging does not help.
	last = 16 * time.Second
)

// Pace is the delay before the next target is tried. It begins with First. It doubles each
// time the hedge does not help, because the first target answered anyway or none did: then
// the cluster is slow, and duplicate requests make it slower. A response in time, or one
// from the second target, resets it to First. The zero value is ready to use; it is safe
// for concurrent use.
type Pace struct {
	doubled atomic.Int32
}

// After returns how long to wait for a response. If the context would end before all
// targets are tried, its time is divided among them.
func (p *Pace) After(ctx context.Context, targets int) time.Duration {
	d := min(First<<p.doubled.Load(), last)
	if end, ok := ctx.Deadline(); ok {
		d = min(d, time.Until(end)/time.Duration(targets))
	}
	return d
}

func (p *Pace) helped() { p.doubled.Store(0) }

func (p *Pace) inVain() {
	if n := p.doubled.Load(); First<<n < last {
		p.doubled.CompareAndSwap(n, n+1)
	}
}
