package events

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// maxEvents bounds how far back a watcher and a webhook can resume. It is a constant because
// every peer must keep the same events.
const maxEvents = 1 << 16

// AddEvent records an event for the watchers of all changes. Cursors count from 1 without a
// gap.
func AddEvent(t *core.Tx, e *holdfastv1.Event) {
	t.Meta.LastEvent++
	e.Cursor, e.Index, e.At = t.Meta.GetLastEvent(), t.Index, t.Now
	t.Events.Append(e)
	t.Meta.FirstEvent = core.FirstKept(t.Meta.GetFirstEvent(), t.Meta.GetLastEvent(), maxEvents)
	t.Events.DropBefore(t.Meta.GetFirstEvent())
}

// LastEvent returns the cursor of the newest event, or zero if there is none.
func (v *View) LastEvent() uint64 { return v.s.Meta.GetLastEvent() }

// FirstEvent returns the cursor of the oldest event kept, or zero if there is none.
func (v *View) FirstEvent() uint64 { return v.s.Meta.GetFirstEvent() }

// Events returns at most limit events with a cursor above after, oldest first. It returns the
// errors of Events.
func (v *View) Events(after uint64, limit int) ([]*holdfastv1.Event, error) {
	return read(v.s.Events, kept{v.FirstEvent(), v.LastEvent()}, after, limit, "go on from now")
}
