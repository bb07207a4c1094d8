package step

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestAllowance checks that an allowance ends like a context.WithDeadline, and so do
// derived contexts, except that its deadline can be moved.
func TestAllowance(t *testing.T) {
	errOver := errors.New("the term is over")
	for _, tt := range []struct {
		name     string
		extend   time.Duration
		cancelAt time.Duration // of the parent
		ends     time.Duration
		err      error
		cause    error
	}{
		{"deadline", 0, time.Hour, time.Minute, context.DeadlineExceeded, context.DeadlineExceeded},
		{"moved", 30 * time.Second, time.Hour, 90 * time.Second, context.DeadlineExceeded, context.DeadlineExceeded},
		{"parent", time.Minute, 70 * time.Second, 70 * time.Second, context.Canceled, errOver},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				parent, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				time.AfterFunc(tt.cancelAt, func() { cancel(errOver) })
				ctx, stop := Allow(parent, began.Add(time.Minute))
				defer stop()
				child, stopChild := context.WithTimeout(ctx, 24*time.Hour)
				defer stopChild()
				time.Sleep(time.Second) // sleep: the time is simulated
				extend(child, tt.extend)
				if end, ok := ctx.Deadline(); !ok || end.Sub(began) != time.Minute+tt.extend {
					t.Errorf("Deadline is after %s, want %s", end.Sub(began), time.Minute+tt.extend)
				}
				<-child.Done()
				if got := time.Since(began); got != tt.ends {
					t.Errorf("it ended after %s, want %s", got, tt.ends)
				}
				for name, c := range map[string]context.Context{"the attempt's": ctx, "a derived one": child} {
					if c.Err() != tt.err || context.Cause(c) != tt.cause { //nolint:errorlint // libraries compare them
						t.Errorf("%s: Err is %v, Cause %v, want %v, %v", name, c.Err(), context.Cause(c), tt.err, tt.cause)
					}
					if timedOut(c) != (tt.err == context.DeadlineExceeded) { //nolint:errorlint // see above
						t.Errorf("%s: timedOut is %t", name, timedOut(c))
					}
				}
				extend(ctx, time.Hour)
				if end, _ := ctx.Deadline(); tt.err == context.DeadlineExceeded && end.Sub(began) != tt.ends { //nolint:errorlint // see above
					t.Errorf("a deadline that has passed was moved to %s", end.Sub(began))
				}
			})
		})
	}
}
