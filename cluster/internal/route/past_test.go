package route

import (
	"testing"
	"time"
)

// The index before a call is the newest one that was applied before it began.
func TestPast(t *testing.T) {
	var p Past
	begin := time.Now()
	at := func(s float64) time.Time { return begin.Add(time.Duration(s * float64(time.Second))) }
	if got := p.Before(begin); got != 0 {
		t.Errorf("without a point: got %d", got)
	}
	for i := range 400 {
		p.Note(at(float64(i)/2), uint64(i)) // every second one is too close
	}
	for _, tt := range []struct {
		at   float64
		want uint64
	}{{199.9, 398}, {199, 398}, {198.9, 396}, {21, 42}, {20, 40}, {19.9, 0}, {-5, 0}} {
		if got := p.Before(at(tt.at)); got != tt.want {
			t.Errorf("before %v s: got %d, want %d", tt.at, got, tt.want)
		}
	}
}
