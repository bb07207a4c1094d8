package runs

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/watch"
)

const (
	eventCache = 2048 // newest events kept decoded
	// hubPause is the minimum time between two reads of the state, however often it
	// changes.
	hubPause = 2 * time.Millisecond
)

// eventHub is the end of the event log, shared by all watchers of a peer. An event is decoded
// once for all of them, and a change of the state wakes one of them instead of thousands.
type eventHub struct {
	state    edge.State
	draining <-chan struct{}
	poller   chan struct{} // held by the watcher that polls the state for all of them

	mu     sync.Mutex
	last   uint64        // cursor of the newest event seen
	grown  chan struct{} // closed when last grows
	events []*holdfastv1.RunEvent
}

// newEventHub returns the hub of a peer.
func newEventHub(state edge.State, draining <-chan struct{}) *eventHub {
	return &eventHub{state: state, draining: draining, poller: make(chan struct{}, 1), grown: make(chan struct{})}
}

// after returns some of the events after a cursor, oldest first, or none if there are
// none yet. The events are shared and must not be changed.
func (t *eventHub) after(cursor uint64) ([]*holdfastv1.RunEvent, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.events); n > 0 && cursor < t.events[n-1].GetCursor() {
		first := t.events[0].GetCursor()
		if cursor+1 < first { // read without the lock, so that a slow watcher does not block the others
			t.mu.Unlock()
			defer t.mu.Lock()
			return readableEvents(t.state.View(), cursor)
		}
		from := int(cursor + 1 - first) // cursors are consecutive
		return t.events[from:min(n, from+watch.Batch)], nil
	}
	v := t.state.View()
	t.advance(v.LastRunEvent())
	fresh, err := readableEvents(v, cursor)
	if err != nil || len(fresh) == 0 {
		return nil, err
	}
	switch n := len(t.events); {
	case n == 0, cursor > t.events[n-1].GetCursor():
		t.events = fresh
	case cursor == t.events[n-1].GetCursor():
		t.events = append(t.events, fresh...)
		t.events = t.events[max(0, len(t.events)-eventCache):]
	}
	return fresh, nil
}

// readableEvents returns events as they are sent: a run waits for the same as in GetRun. An event
// without a message is a wait.
func readableEvents(v *fsm.View, cursor uint64) ([]*holdfastv1.RunEvent, error) {
	events, err := v.RunEvents(cursor, watch.Batch)
	for i, e := range events {
		run, message := readable(v, e.GetSnapshot()), e.GetMessage()
		if run == e.GetSnapshot() {
			continue
		}
		if message == "" {
			message = "step " + run.GetCurrentStep() + ": waiting for " + run.GetWait().GetSentence()
		}
		// Events of the state are shared.
		events[i] = &holdfastv1.RunEvent{Ts: e.GetTs(), Snapshot: run, Message: message, Cursor: e.GetCursor(),
			Index: e.GetIndex()}
	}
	return events, err
}

// readable returns a run as it is sent, with the sentence of its wait.
func readable(v *fsm.View, run *holdfastv1.Run) *holdfastv1.Run {
	return v.Readable(run, describe.Wait)
}

// advance wakes all watchers if there are new events. The caller holds the lock.
func (t *eventHub) advance(last uint64) {
	if last > t.last {
		t.last = last
		close(t.grown)
		t.grown = make(chan struct{})
	}
}

// wait blocks until there are events after a cursor.
func (t *eventHub) wait(ctx context.Context, cursor uint64) error {
	for {
		t.mu.Lock()
		last, grown := t.last, t.grown
		t.mu.Unlock()
		if last > cursor {
			return nil
		}
		select {
		case <-grown:
		case t.poller <- struct{}{}:
			err := t.follow(ctx, cursor)
			<-t.poller
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		case <-t.draining:
			return edge.ErrDraining
		}
	}
}

// follow polls the state until it has events after the cursor.
func (t *eventHub) follow(ctx context.Context, cursor uint64) error {
	for {
		changed := t.state.Changed()
		last := t.state.View().LastRunEvent()
		t.mu.Lock()
		t.advance(last)
		t.mu.Unlock()
		if last > cursor {
			return nil
		}
		if err := edge.Pause(ctx, t.draining, hubPause, changed); err != nil {
			return err
		}
	}
}
