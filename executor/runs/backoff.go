package runs

import (
	"math/rand/v2"
	"time"
)

// retryAfter returns the delay before a retry. It doubles with each attempt, and half of
// it is random, so that runs that failed together do not retry together.
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

// poller returns the intervals between observations: short at first, then longer, with jitter.
type poller struct{ next, most time.Duration }

func (p *poller) interval() time.Duration {
	d := p.next
	p.next = min(p.next*3/2, p.most)
	return d*3/4 + rand.N(d/2+1)
}
