package discovery

import (
	"sync"
	"time"
)

// maxReports bounds the pending reports. The router keeps no more than ten itself.
const maxReports = 10

// reports are the states not yet sent to the router, oldest first.
type reports struct {
	wake chan struct{} // holds one element if there is a new state

	mu     sync.Mutex
	states []State
}

func newReports() *reports { return &reports{wake: make(chan struct{}, 1)} }

// add appends a state. It replaces the last one if that differs in its time only.
func (r *reports) add(s State) {
	r.mu.Lock()
	if n := len(r.states); n > 0 && r.states[n-1].Healthy == s.Healthy && r.states[n-1].Reason == s.Reason {
		r.states[n-1] = s
	} else {
		r.states = append(r.states, s)
		r.states = r.states[max(0, len(r.states)-maxReports):]
	}
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// take removes the oldest state and returns it.
func (r *reports) take() (State, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.states) == 0 {
		return State{}, false
	}
	s := r.states[0]
	r.states = r.states[1:]
	return s, true
}

// putBack makes a taken state the oldest again, unless the list is full.
func (r *reports) putBack(s State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.states) < maxReports {
		r.states = append([]State{s}, r.states...)
	}
}

func now(healthy bool, reason string) State {
	return State{Timestamp: time.Now().UTC().Truncate(time.Millisecond), Healthy: healthy, Reason: reason}
}
