package history

import (
	"time"

	"github.com/holdfast-metal/holdfast/cluster"
)

// quantile returns the time that percent of the commands took no longer than, counted as in
// PeerLoad.commits. Within a bound they are taken to be spread evenly; what took longer than the
// last bound is told as that. Of no commands it is 0.
func quantile(counts []uint64, percent uint64) time.Duration {
	var all uint64
	for _, n := range counts {
		all += n
	}
	if all == 0 {
		return 0
	}
	want := (all*percent + 99) / 100 // of so many, rounded up
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
