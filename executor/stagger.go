package executor

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

// turns are the times at which machines may be powered on: those of one provider, and of one rack,
// stand in line, so that a site's power does not see them all start at once. They are of one
// leader; the next one begins without a line.
type turns struct {
	mu   sync.Mutex
	next map[string]time.Time // by provider, and by provider and rack
}

func newTurns() *turns { return &turns{next: map[string]time.Time{}} }

// take returns the time of the next turn, which then is taken.
func (t *turns) take(provider, rack string, by providers.Stagger) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := time.Now()
	gaps := map[string]time.Duration{provider: by.Interval}
	if rack != "" {
		gaps[provider+"\x00"+rack] = by.Rack
	}
	for line, gap := range gaps {
		if gap > 0 {
			at = latest(at, t.next[line])
		}
	}
	for line, gap := range gaps {
		if gap > 0 {
			t.next[line] = at.Add(gap)
		}
	}
	return at
}

// awaitTurn blocks until the machine may be powered on.
func (a *attempt) awaitTurn(ctx context.Context) error {
	by := a.providers.PowerOn(a.instance)
	if by == (providers.Stagger{}) {
		return nil
	}
	at := a.turns.take(a.instance, a.machine.GetSpec().GetRack(), by)
	extend(ctx, time.Until(at))
	return a.poll(ctx, "its turn to be powered on (power_on_interval of provider "+a.instance+")", func(context.Context) (bool, error) {
		return !time.Now().Before(at), nil
	})
}
