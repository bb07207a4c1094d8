package lease

import (
	"time"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// LeftWhileAnswering returns how long the leader keeps a lease from now on. It is for use within an
// answer that renews one: the engine is locked then.
func (e *Engine) LeftWhileAnswering(kind internalv1.LeaseRef_Kind, id string) (time.Duration, bool) {
	r := e.current.Load()
	if r == nil {
		return 0, false
	}
	n := r.table[key{kind, id}]
	if n == nil || n.place >= 0 && r.order.at[n.place] > n.due() { // out of the order: the sweep has it, and puts it back
		return 0, false
	}
	return n.due() - r.clock.now(), true
}

// Pause makes the leader believe that nobody has looked at the clock for so long: his process was
// stopped, or his host slept.
func (e *Engine) Pause(d time.Duration) {
	r := e.current.Load()
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clock.last = r.clock.last.Add(-d)
}

// Clock returns the lease clock of the current leadership.
func (e *Engine) Clock() time.Duration {
	r := e.current.Load()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.clock.at
}
