// Package wait lets a loop pause between two tries. It owns pauses that end with a context, and
// must not know what a caller waits for.
package wait

import (
	"context"
	"time"
)

// Sleep blocks for d and returns nil. If ctx ends first, or has ended before, it returns the error
// of ctx. Without a time to wait (d <= 0) it returns at once, with the error of ctx.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
