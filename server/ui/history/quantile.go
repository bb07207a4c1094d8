package history

import (
	"time"

	"github.com/holdfast-metal/holdfast/cluster"
)

// Quantile returns the latency that percent of the commands did not exceed, with counts as
// in PeerLoad.commits. It interpolates linearly within a bucket. Latencies above the last
// bound are reported as that bound. Without commands it returns 0.
func Quantile(counts []uint64, percent uint64) time.Duration {
	var all uint64
	for _, n := range counts {
		all += n
	}
	if all == 0 {
		return 0
	}
	want := (all*percent + 99) / 100 // rank, rounded up
	var below time.Duration
	for i, n := range counts {
		if i >= cluster.CommitBounds {
			break
		}
		bound := cluster.CommitBound(i)
		if want <= n {
			return below + time.Duration(float64(bound-below)*float64(want)/float64(n))
		}
		want -= n
		below = bound
	}
	return below
}
