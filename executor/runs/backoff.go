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
