// Package wait owns the ways in which the parts of a peer wait: for a change, for a time, and for a
// Raft future, each until a context ends. It must not know what is waited for.
package wait

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Signal notifies any number of waiters of a change. Call Wait before reading the state
// that may change.
type Signal struct {
	mu sync.Mutex
	ch chan struct{}
}

// NewSignal returns a signal that has not fired.
func NewSignal() *Signal { return &Signal{ch: make(chan struct{})} }

// Wait returns a channel that is closed at the next Fire.
func (s *Signal) Wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ch
}

// Fire notifies all waiters.
func (s *Signal) Fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.ch)
	s.ch = make(chan struct{})
}

// Sleep waits for d. It reports whether the whole time has passed before ctx ended.
func Sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Future is the part of a raft.Future that For needs.
type Future interface {
	Error() error
}

// ErrStopped is returned by For if ctx ends first.
var ErrStopped = errors.New("stopped waiting")

// For waits for a Raft future until ctx ends. Futures know no contexts, so one that
// outlives ctx leaks its goroutine until it answers. It never answers if Raft is shut down
// before the state machine reaches the entry.
func For(ctx context.Context, f Future) error {
	done := make(chan error, 1)
	go func() { done <- f.Error() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrStopped, context.Cause(ctx))
	}
}
