package final

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/holdfast-metal/holdfast/test/bmclab/control"
	"github.com/holdfast-metal/holdfast/test/robustness/site"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

// SessionsTime bounds the time until unused sessions and those of killed leaders are ended. A
// leader ends those of others with its next poll of the machine, and a late one, whose login the
// BMC served only after that, with the poll after it. A poll comes every 27 s, and the leader's
// own session ends after site.Idle.
const SessionsTime = 60*time.Second + 4*site.Idle

// real reads the observations of BMCs and the host.
func (f *Record) real(ctx context.Context, r *workload.Real) error {
	if r == nil {
		return nil
	}
	for i, b := range r.Site.BMCs {
		seen, err := b.Seen(ctx)
		if err != nil {
			return fmt.Errorf("read the observations of BMC %d: %w", i, err)
		}
		left := seen.Open
		for end := time.Now().Add(SessionsTime); len(left) > 0 && time.Now().Before(end); {
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
				return ctx.Err()
			}
			now, err := b.Seen(ctx)
			if err != nil {
				return fmt.Errorf("read the sessions of BMC %d: %w", i, err)
			}
			left = now.Open
		}
		f.BMCs, f.Sessions = append(f.BMCs, seen), append(f.Sessions, left)
	}
	if len(r.Hosts) == 0 {
		return nil
	}
	b, err := os.ReadFile(r.Site.Starts())
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("read the commands started on the host: %w", err)
	}
	f.Starts = string(b)
	return nil
}

// SeenOf returns the observations of a machine's BMC.
func (f *Record) SeenOf(i int) control.Seen {
	if i < len(f.BMCs) {
		return f.BMCs[i]
	}
	return control.Seen{}
}
