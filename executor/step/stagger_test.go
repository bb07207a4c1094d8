package step

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

func TestTurnsOfRacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns, by, now := NewTurns(), providers.Stagger{Rack: time.Second}, time.Now()
		for _, tt := range []struct {
			rack string
			want time.Duration
		}{{"r1", 0}, {"r2", 0}, {"r1", time.Second}, {"r1", 2 * time.Second}, {"", 0}} {
			if got := turns.take("dc-1", tt.rack, by).Sub(now); got != tt.want {
				t.Errorf("rack %q: turn after %s, want %s", tt.rack, got, tt.want)
			}
		}
	})
}
