package lease

import (
	"time"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// LeftWhileAnswering returns the time until a lease expires. It is for use within the answer to a
// renewal, when the engine is locked.
func (e *Engine) LeftWhileAnswering(kind internalv1.LeaseRef_Kind, id string) (time.Duration, bool) {
	ts := e.current.Load()
	if ts == nil {
		return 0, false
	}
	n := ts.table[key{kind, id}]
	// Not in the heap: the sweep has removed it and will put it back.
	if n == nil || n.heapIndex >= 0 && ts.order.at[n.heapIndex] > n.due() {
		return 0, false
	}
	return n.due() - ts.clock.now(), true
}

// Pause makes the engine see a gap of d in the readings of its clock, as if the process had been
// stopped or the host had been suspended.
func (e *Engine) Pause(d time.Duration) {
	ts := e.current.Load()
	if ts == nil {
		return
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.clock.last = ts.clock.last.Add(-d)
}

// Clock returns the lease clock of the current term.
func (e *Engine) Clock() time.Duration {
	ts := e.current.Load()
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.clock.at
}

// GapFor is gapFor for tests.
var GapFor = gapFor
