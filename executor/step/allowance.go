package step

import (
	"context"
	"sync"
	"time"
)

// Allowance is the context of an attempt. It is like context.WithDeadline, but its
// deadline can be extended: the time that a machine waits for its turn to be powered on
// does not count.
type Allowance struct {
	parent context.Context
	inner  context.Context // ends with the parent, or when the deadline passes
	cancel context.CancelFunc
	timer  *time.Timer

	mu     sync.Mutex
	end    time.Time
	passed bool
}

var _ context.Context = (*Allowance)(nil)

type allowanceKey struct{}

// Allow returns a context that ends at a deadline or with its parent. stop releases its resources.
func Allow(parent context.Context, end time.Time) (a *Allowance, stop func()) {
	inner, cancel := context.WithCancel(parent)
	a = &Allowance{parent: parent, inner: inner, cancel: cancel, end: end}
	a.timer = time.AfterFunc(time.Until(end), func() {
		a.mu.Lock()
		a.passed = inner.Err() == nil
		a.mu.Unlock()
		cancel()
	})
	return a, func() {
		a.timer.Stop()
		cancel()
	}
}

// extend moves the deadline of the attempt that ctx belongs to, unless it has passed.
func extend(ctx context.Context, by time.Duration) {
	a, ok := ctx.Value(allowanceKey{}).(*Allowance)
	if !ok || by <= 0 || !a.timer.Stop() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.end = a.end.Add(by)
	a.timer.Reset(time.Until(a.end))
}

// Shorten moves the deadline to an earlier time. If that has passed, the context has ended when
// Shorten returns.
func (a *Allowance) Shorten(end time.Time) {
	if !a.timer.Stop() {
		return
	}
	a.mu.Lock()
	if end.Before(a.end) {
		a.end = end
	}
	left := time.Until(a.end)
	a.passed = left <= 0 && a.inner.Err() == nil
	a.mu.Unlock()
	if left > 0 {
		a.timer.Reset(left)
		return
	}
	a.cancel()
}

// TimedOut reports whether the deadline passed before the parent ended.
func (a *Allowance) TimedOut() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.passed
}

// timedOut reports whether the deadline of the attempt that ctx belongs to has passed.
func timedOut(ctx context.Context) bool {
	a, ok := ctx.Value(allowanceKey{}).(*Allowance)
	return ok && a.TimedOut()
}

// Deadline implements context.Context.
func (a *Allowance) Deadline() (time.Time, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if end, ok := a.parent.Deadline(); ok && end.Before(a.end) {
		return end, true
	}
	return a.end, true
}

// Done implements context.Context.
func (a *Allowance) Done() <-chan struct{} { return a.inner.Done() }

// Err implements context.Context.
func (a *Allowance) Err() error {
	if a.TimedOut() {
		return context.DeadlineExceeded
	}
	return a.inner.Err()
}

// Value implements context.Context. The inner context is left out: contexts that derive
// from this one end with Err.
func (a *Allowance) Value(key any) any {
	if key == (allowanceKey{}) {
		return a
	}
	return a.parent.Value(key)
}

// AfterFunc calls f when the context ends. Package context uses it for derived contexts.
func (a *Allowance) AfterFunc(f func()) (stop func() bool) { return context.AfterFunc(a.inner, f) }
