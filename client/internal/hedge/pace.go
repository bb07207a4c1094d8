package hedge

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	// First is how long an answer may take before another target is asked as well: longer than an
	// election with the default settings, much shorter than what an operator may notice.
	First = 2 * time.Second
	// last is what First grows to while asking more than one is of no use.
	last = 16 * time.Second
)

// Pace is after how long the next target is asked. It begins with First. Whenever the second
// opinion was of no use (the first one answered all the same, or nobody did) it doubles: what is
// slow then is the cluster, and many clients that ask twice make it slower. An answer in time, or
// one that the second opinion brought, makes it First again. The zero value is ready; it is safe
// for concurrent use.
type Pace struct {
	doubled atomic.Int32
}

// After is how long to wait for an answer. When the context ends before the others had their turn,
// the time is shared out.
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
