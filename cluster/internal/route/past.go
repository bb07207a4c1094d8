package route

import (
	"slices"
	"sync"
	"time"
)

// Past remembers which index the state had some time ago.
type Past struct {
	mu     sync.Mutex
	points []point // oldest first
}

// point is the index of the applied state at a time.
type point struct {
	at    time.Time
	index uint64
}

// The number of points that are kept, and the least time between two.
const (
	pastPoints = 180
	pastEvery  = time.Second
)

// Note remembers the index of the state.
func (p *Past) Note(at time.Time, index uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.points); n > 0 && at.Sub(p.points[n-1].at) < pastEvery {
		return
	}
	if len(p.points) == pastPoints {
		p.points = p.points[:copy(p.points, p.points[1:])]
	}
	p.points = append(p.points, point{at, index})
}

// Before returns an index that was applied by a time, so that every command proposed later has a
// higher one. It is 0 if this peer does not know.
func (p *Past) Before(at time.Time) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range slices.Backward(p.points) {
		if !o.at.After(at) {
			return o.index
		}
	}
	return 0
}
