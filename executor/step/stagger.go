package step

import (
	"context"
	"sync"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
)

// Turns schedules the times at which machines may be powered on. Machines of the same
// provider or rack are powered on one after another, to limit the inrush current at a
// site. The schedule is in the leader's memory: the next leader starts with an empty one.
type Turns struct {
	mu   sync.Mutex
	next map[string]time.Time // by provider, and by provider and rack
}

// NewTurns returns an empty schedule.
func NewTurns() *Turns { return &Turns{next: map[string]time.Time{}} }

// take reserves the next turn and returns its time.
func (t *Turns) take(provider, rack string, by providers.Stagger) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := time.Now()
	gaps := map[string]time.Duration{provider: by.Interval}
	if rack != "" {
		gaps[provider+"\x00"+rack] = by.Rack
	}
	for line, gap := range gaps {
		if next := t.next[line]; gap > 0 && next.After(at) {
			at = next
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
func (a *Attempt) awaitTurn(ctx context.Context) error {
	by := a.Stagger
	if by == (providers.Stagger{}) {
		return nil
	}
	at := a.Turns.take(a.Instance, a.Machine.GetSpec().GetRack(), by)
	extend(ctx, time.Until(at))
	return a.Poll(ctx, waitOf(holdfastv1.Wait_STAGGER, a.Instance), func(context.Context) (bool, error) {
		return !time.Now().Before(at), nil
	})
}
