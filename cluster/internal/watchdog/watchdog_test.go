package watchdog

import (
	"testing"
	"time"
)

// TestStall checks that only a leader that commits nothing counts as stalled, and that a slow Apply
// does not count.
func TestStall(t *testing.T) {
	type tick struct {
		committed       uint64
		leads, applying bool
	}
	for _, tt := range []struct {
		name  string
		ticks []tick
		want  time.Duration
	}{
		{"the disk hangs", []tick{{7, true, false}, {7, true, false}, {7, true, false}}, 2 * time.Second},
		{"entries are committed", []tick{{7, true, false}, {8, true, false}, {9, true, false}}, 0},
		{"it does not lead", []tick{{7, true, false}, {7, false, false}, {7, false, false}}, 0},
		{"an entry is being applied", []tick{{7, true, true}, {7, true, true}, {7, true, true}}, 0},
		{"the disk hangs after a slow Apply", []tick{{7, true, true}, {7, true, true}, {7, true, false}}, time.Second},
	} {
		var s stall
		for _, k := range tt.ticks {
			s.tick(time.Second, k.committed, k.leads, k.applying)
		}
		if s.idle != tt.want {
			t.Errorf("%s: got %v without a commit, want %v", tt.name, s.idle, tt.want)
		}
	}
}
