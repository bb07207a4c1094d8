package load

import (
	"math"
	"sync/atomic"
	"time"
)

const (
	finest = 10 * time.Microsecond // shorter times are counted together
	growth = 1.05                  // from one bound to the next: quantiles are at most 5 % too high
	bounds = 400                   // up to 10 µs · 1.05^400, fifty minutes
)

// Histogram counts times in constant memory. The zero value is empty. It is safe for concurrent
// use.
type Histogram struct {
	counts [bounds + 1]atomic.Int64
	most   atomic.Int64
}

// Add counts a time.
func (h *Histogram) Add(d time.Duration) {
	i := 0
	if d > finest {
		i = min(int(math.Ceil(math.Log(float64(d)/float64(finest))/math.Log(growth))), bounds)
	}
	h.counts[i].Add(1)
	for was := h.most.Load(); int64(d) > was && !h.most.CompareAndSwap(was, int64(d)); was = h.most.Load() {
	}
}

// Count returns the number of added times.
func (h *Histogram) Count() int64 {
	n := int64(0)
	for i := range h.counts {
		n += h.counts[i].Load()
	}
	return n
}

// Most returns the longest time, or zero if there is none.
func (h *Histogram) Most() time.Duration { return time.Duration(h.most.Load()) }

// Quantile returns the q-quantile, at most 5 % too high, or zero if there are no times.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank, seen := max(int64(math.Ceil(q*float64(h.Count()))), 1), int64(0)
	for i := range h.counts {
		if seen += h.counts[i].Load(); seen >= rank {
			return min(time.Duration(float64(finest)*math.Pow(growth, float64(i))), h.Most())
		}
	}
	return h.Most()
}
