package heap

import "testing"

func TestGCShare(t *testing.T) {
	for _, tt := range []struct {
		live uint64
		want int
	}{
		{0, mostShare},
		{64 << 20, mostShare},
		{256 << 20, 200},
		{512 << 20, 100},
		{1 << 30, 50},
		{20 << 30, leastShare},
	} {
		if got := gcShare(tt.live); got != tt.want {
			t.Errorf("%d MiB alive: got %d %%, want %d", tt.live>>20, got, tt.want)
		}
	}
}
