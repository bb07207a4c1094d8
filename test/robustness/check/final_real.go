package check

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/holdfast-metal/holdfast/test/bmclab/desk"
	"github.com/holdfast-metal/holdfast/test/robustness/site"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

// sessionsTime is how long it may take until nobody uses a session with a BMC, and it is ended: a
// look at the machine may come in between.
const sessionsTime = 8 * site.Idle

// real asks BMCs and the host what they have seen.
func (f *Final) real(ctx context.Context, r *workload.Real) error {
	if r == nil {
		return nil
	}
	for i, b := range r.Site.BMCs {
		seen, err := b.Seen(ctx)
		if err != nil {
			return fmt.Errorf("ask BMC %d what it has seen: %w", i, err)
		}
		left := seen.Sessions
		for end := time.Now().Add(sessionsTime); left > 0 && time.Now().Before(end); {
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
				return ctx.Err()
			}
			now, err := b.Seen(ctx)
			if err != nil {
				return fmt.Errorf("ask BMC %d for its sessions: %w", i, err)
			}
			left = now.Sessions
		}
		f.BMCs, f.Sessions = append(f.BMCs, seen), append(f.Sessions, left)
	}
	if len(r.Hosts) == 0 {
		return nil
	}
	b, err := os.ReadFile(r.Site.Starts())
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("read what was started on the host: %w", err)
	}
	f.Starts = string(b)
	return nil
}

// seenOf returns what the BMC of a machine has seen.
func (f *Final) seenOf(i int) desk.Seen {
	if i < len(f.BMCs) {
		return f.BMCs[i]
	}
	return desk.Seen{}
}
