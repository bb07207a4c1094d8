package cluster

import (
	"testing"
	"time"
)

// TestCommitPlace checks that bounds grow by half and by a third in turn, and that each command is
// counted in the smallest bucket that fits.
func TestCommitPlace(t *testing.T) {
	for _, tt := range []struct {
		took  time.Duration
		place int
	}{
		{0, 0}, {100 * time.Microsecond, 0}, {101 * time.Microsecond, 1}, {150 * time.Microsecond,
			1}, {200 * time.Microsecond, 2}, {time.Millisecond, 7}, {4 * time.Second, 31},
		{time.Minute, CommitBounds},
	} {
		if got := commitPlace(tt.took); got != tt.place {
			t.Errorf("place of %v: got %d, want %d", tt.took, got, tt.place)
		}
	}
	for i := 1; i < CommitBounds; i++ {
		if CommitBound(i) <= CommitBound(i-1) {
			t.Errorf("bound %d: got %v after %v, want a larger one", i, CommitBound(i), CommitBound(i-1))
		}
	}
}
