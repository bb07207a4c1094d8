package events

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
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
	if first := v.s.Meta.GetFirstServiceEvent(); after+1 < first || after > v.LastServiceEvent() {
		return nil, refusal.New(refusal.OutOfRange, refusal.ReasonCursorGone,
			"cursor %d is not kept: events %d to %d are; watch again without a cursor to start from the current state",
			after, first, v.LastServiceEvent())
	}
	var es []*holdfastv1.ServiceEvent
	for e := range v.s.ServiceEvents.After(after) {
		if len(es) == limit {
			break
		}
		es = append(es, e)
	}
	return es, nil
}
