package events

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// maxEvents bounds how far back a watcher can resume. It is a constant because every peer
// must keep the same events.
const maxEvents = 1 << 16

// AddEvent records a transition of a run. Cursors count from 1 without a gap, so that a
// watcher can prove that it has missed nothing.
func AddEvent(t *core.Tx, run *holdfastv1.Run, message string) {
	t.Meta.LastEvent++
	t.Events.Append(&holdfastv1.RunEvent{
		Ts: t.Now, Snapshot: run, Message: message, Cursor: t.Meta.GetLastEvent(), Index: t.Index,
	})
	t.Meta.FirstEvent = core.FirstKept(t.Meta.GetFirstEvent(), t.Meta.GetLastEvent(), maxEvents)
	t.Events.DropBefore(t.Meta.GetFirstEvent())
}

// LastEvent returns the cursor of the newest event, or zero if there is none.
func (v *View) LastEvent() uint64 { return v.s.Meta.GetLastEvent() }

// Events returns at most limit events with a cursor above after, oldest first. A cursor that
// is too old to resume from, or that this cluster never issued, is OutOfRange.
func (v *View) Events(after uint64, limit int) ([]*holdfastv1.RunEvent, error) {
	return read(v.s.Events, kept{v.s.Meta.GetFirstEvent(), v.LastEvent()}, after, limit, fromCurrentState)
}
