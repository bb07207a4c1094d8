package events

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// maxServiceEvents bounds how far back a watcher can resume. It is a constant because every
// peer must keep the same events.
const maxServiceEvents = 1 << 14

// AddServiceEvent records a change of a service. Cursors count from 1 without a gap. A ping
// that changes nothing is not an event.
func AddServiceEvent(t *core.Tx, s *holdfastv1.Service) {
	t.Meta.LastServiceEvent++
	t.ServiceEvents.Append(&holdfastv1.ServiceEvent{Cursor: t.Meta.GetLastServiceEvent(), Service: s, At: t.Now})
	t.Meta.FirstServiceEvent = core.FirstKept(t.Meta.GetFirstServiceEvent(), t.Meta.GetLastServiceEvent(),
		maxServiceEvents)
	t.ServiceEvents.DropBefore(t.Meta.GetFirstServiceEvent())
}

// LastServiceEvent returns the cursor of the newest event of services, or zero if there is
// none.
func (v *View) LastServiceEvent() uint64 { return v.s.Meta.GetLastServiceEvent() }

// ServiceEvents returns at most limit events of services with a cursor above after, oldest
// first. It returns the errors of Events.
func (v *View) ServiceEvents(after uint64, limit int) ([]*holdfastv1.ServiceEvent, error) {
	kept := kept{v.s.Meta.GetFirstServiceEvent(), v.LastServiceEvent()}
	return read(v.s.ServiceEvents, kept, after, limit, fromCurrentState)
}
