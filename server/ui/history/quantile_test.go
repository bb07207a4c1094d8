package history

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-metal/holdfast/cluster"
)

// TestQuantile: a quantile is within the bucket of its command, and grows with the
// percentage.
func TestQuantile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		counts := rapid.SliceOfN(rapid.Uint64Range(0, 50), cluster.CommitBounds+1, cluster.CommitBounds+1).Draw(t, "counts")
		var places []int
		for i, n := range counts {
			for range n {
				places = append(places, i)
			}
		}
		before := time.Duration(0)
		for percent := uint64(1); percent <= 100; percent++ {
			got := Quantile(counts, percent)
			if len(places) == 0 {
				if got != 0 {
					t.Fatalf("without commands: got %v", got)
				}
				continue
			}
			place := places[(uint64(len(places))*percent+99)/100-1]
			least, most := time.Duration(0), cluster.CommitBound(min(place, cluster.CommitBounds-1))
			if place > 0 {
				least = cluster.CommitBound(place - 1)
			}
			if got < least || got > most || got < before {
				t.Fatalf("%d in 100 of %v: got %v, want %v to %v, and at least %v", percent, counts, got, least, most, before)
			}
			before = got
		}
	})
}
