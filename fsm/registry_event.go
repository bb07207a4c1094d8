package fsm

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// maxServiceEvents bounds how far back a watcher can resume. It is a constant because every
// peer must keep the same events.
const maxServiceEvents = 1 << 14

// addServiceEvent records a change of a service. Cursors count from 1 without a gap. A ping
// that changes nothing is not an event.
func (t *tx) addServiceEvent(s *holdfastv1.Service) {
	t.meta.LastServiceEvent++
	t.serviceEvents.Put(&holdfastv1.ServiceEvent{Cursor: t.meta.GetLastServiceEvent(), Service: s, At: t.now})
	if t.meta.GetFirstServiceEvent() == 0 {
		t.meta.FirstServiceEvent = 1
	}
	for ; t.meta.GetLastServiceEvent()-t.meta.GetFirstServiceEvent() >= maxServiceEvents; t.meta.FirstServiceEvent++ {
		t.serviceEvents.Delete(schema.Ordered(t.meta.GetFirstServiceEvent()))
	}
}

// LastServiceEvent returns the cursor of the newest event of services, or zero if there is
// none.
func (v *View) LastServiceEvent() uint64 { return v.meta.GetLastServiceEvent() }

// ServiceEvents returns at most limit events of services with a cursor above after, oldest
// first. It returns the errors of Events.
func (v *View) ServiceEvents(after uint64, limit int) ([]*holdfastv1.ServiceEvent, error) {
	if first := v.meta.GetFirstServiceEvent(); after+1 < first || after > v.LastServiceEvent() {
		return nil, refuse(OutOfRange, ReasonCursorGone,
			"cursor %d is not kept: events %d to %d are; watch again without a cursor to start from the current state",
			after, first, v.LastServiceEvent())
	}
	var es []*holdfastv1.ServiceEvent
	for e := range v.serviceEvents.Ascend("", schema.Ordered(after)) {
		if len(es) == limit {
			break
		}
		es = append(es, e)
	}
	return es, nil
}
