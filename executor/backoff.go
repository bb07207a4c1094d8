package executor

import (
	"math/rand/v2"
	"time"
)

// retryAfter returns how long to wait before a retry: doubled for each attempt that was made, with
// half of it left to chance so that a fleet that failed together does not come back together.
func retryAfter(base, most time.Duration, attempt int32) time.Duration {
	d := base
	for range attempt - 1 {
		if d *= 2; d >= most {
			d = most
			break
		}
	}
	d = min(d, most)
	return d/2 + rand.N(d/2+1)
}

// poller paces observations: quick at first, then slower, with jitter.
type poller struct{ next, most time.Duration }

func (p *poller) interval() time.Duration {
	d := p.next
	p.next = min(p.next*3/2, p.most)
	return d*3/4 + rand.N(d/2+1)
}
