package events

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// maxRunEvents bounds how far back a watcher can resume. It is a constant because every peer
// must keep the same events.
const maxRunEvents = 1 << 16

// AddRunEvent records a transition of a run. Cursors count from 1 without a gap, so that a
// watcher can prove that it has missed nothing.
func AddRunEvent(t *core.Tx, run *holdfastv1.Run, message string) {
	t.Meta.LastRunEvent++
	t.RunEvents.Append(&holdfastv1.RunEvent{
		Ts: t.Now, Snapshot: run, Message: message, Cursor: t.Meta.GetLastRunEvent(), Index: t.Index,
	})
	t.Meta.FirstRunEvent = core.FirstKept(t.Meta.GetFirstRunEvent(), t.Meta.GetLastRunEvent(), maxRunEvents)
	t.RunEvents.DropBefore(t.Meta.GetFirstRunEvent())
}

// LastRunEvent returns the cursor of the newest event, or zero if there is none.
func (v *View) LastRunEvent() uint64 { return v.s.Meta.GetLastRunEvent() }

// RunEvents returns at most limit events with a cursor above after, oldest first. A cursor that
// is too old to resume from, or that this cluster never issued, is OutOfRange.
func (v *View) RunEvents(after uint64, limit int) ([]*holdfastv1.RunEvent, error) {
	return read(v.s.RunEvents, kept{v.s.Meta.GetFirstRunEvent(), v.LastRunEvent()}, after, limit, fromCurrentState)
}
