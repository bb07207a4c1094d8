package fsm

import (
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// maxEvents bounds how far back a watcher can resume. It is a constant because every peer
// must keep the same events.
const maxEvents = 1 << 16

// addEvent records a transition of a run. Cursors count from 1 without a gap, so that a
// watcher can prove that it has missed nothing.
func addEvent(t *core.Tx, run *holdfastv1.Run, message string) {
	t.Meta.LastEvent++
	t.Events.Put(&holdfastv1.RunEvent{
		Ts: t.Now, Snapshot: run, Message: message, Cursor: t.Meta.GetLastEvent(), Index: t.Index,
	})
	if t.Meta.GetFirstEvent() == 0 {
		t.Meta.FirstEvent = 1
	}
	for ; t.Meta.GetLastEvent()-t.Meta.GetFirstEvent() >= maxEvents; t.Meta.FirstEvent++ {
		t.Events.Delete(schema.Ordered(t.Meta.GetFirstEvent()))
	}
}

// LastEvent returns the cursor of the newest event, or zero if there is none.
func (v *View) LastEvent() uint64 { return v.state.Meta.GetLastEvent() }

// Events returns at most limit events with a cursor above after, oldest first. A cursor that
// is too old to resume from, or that this cluster never issued, is OutOfRange.
func (v *View) Events(after uint64, limit int) ([]*holdfastv1.RunEvent, error) {
	if first := v.state.Meta.GetFirstEvent(); after+1 < first || after > v.LastEvent() {
		return nil, refuse(OutOfRange, ReasonCursorGone,
			"cursor %d is not kept: events %d to %d are; watch again without a cursor to start from the current state",
			after, first, v.LastEvent())
	}
	var es []*holdfastv1.RunEvent
	for e := range v.state.Events.Ascend("", schema.Ordered(after)) {
		if len(es) == limit {
			break
		}
		es = append(es, e)
	}
	return es, nil
}

// maxNews bounds how far back a watcher and a webhook can resume. It is a constant because
// every peer must keep the same events.
const maxNews = 1 << 16

// addNews records an event for the watchers of all changes. Cursors count from 1 without a
// gap.
func addNews(t *core.Tx, e *holdfastv1.Event) {
	t.Meta.LastNews++
	e.Cursor, e.Index, e.At = t.Meta.GetLastNews(), t.Index, t.Now
	t.News.Put(e)
	if t.Meta.GetFirstNews() == 0 {
		t.Meta.FirstNews = 1
	}
	for ; t.Meta.GetLastNews()-t.Meta.GetFirstNews() >= maxNews; t.Meta.FirstNews++ {
		t.News.Delete(schema.Ordered(t.Meta.GetFirstNews()))
	}
}

// runNews returns the event of a run that has entered its phase, without the run's steps.
func runNews(r *holdfastv1.Run) *holdfastv1.Event {
	return &holdfastv1.Event{
		Type:      "run." + strings.ToLower(r.GetPhase().String()),
		MachineId: r.GetMachineId(),
		Run: &holdfastv1.Run{
			RunId:        r.GetRunId(),
			MachineId:    r.GetMachineId(),
			RequestId:    r.GetRequestId(),
			Type:         r.GetType(),
			PlanId:       r.GetPlanId(),
			Phase:        r.GetPhase(),
			CurrentStep:  r.GetCurrentStep(),
			CreatedAt:    r.GetCreatedAt(),
			StartedAt:    r.GetStartedAt(),
			FinishedAt:   r.GetFinishedAt(),
			Error:        r.GetError(),
			CancelReason: r.GetCancelReason(),
			Principal:    r.GetPrincipal(),
			Revision:     r.GetRevision(),
		},
	}
}

// serviceNews returns the event of a changed service.
func serviceNews(s *holdfastv1.Service) *holdfastv1.Event {
	e := &holdfastv1.Event{Type: "service.inactive", Service: s}
	switch {
	case s.GetDeregistered():
		e.Type = "service.deregistered"
	case s.GetActive():
		e.Type = "service.active"
	}
	return e
}

// poolNews returns the event of a pool that has entered its status.
func poolNews(p *holdfastv1.Pool, reason string) *holdfastv1.Event {
	return &holdfastv1.Event{Type: "pool." + strings.ToLower(p.GetStatus().String()), Pool: &holdfastv1.Pool{
		PoolId: p.GetPoolId(), Provider: p.GetProvider(), Status: p.GetStatus(), StatusReason: reason,
		StatusChangedAt: p.GetStatusChangedAt(),
		Region:          p.GetRegion(), Endpoint: p.GetEndpoint(), NodeId: p.GetNodeId(),
	}}
}

// LastNews returns the cursor of the newest event, or zero if there is none.
func (v *View) LastNews() uint64 { return v.state.Meta.GetLastNews() }

// FirstNews returns the cursor of the oldest event kept, or zero if there is none.
func (v *View) FirstNews() uint64 { return v.state.Meta.GetFirstNews() }

// News returns at most limit events with a cursor above after, oldest first. It returns the
// errors of Events.
func (v *View) News(after uint64, limit int) ([]*holdfastv1.Event, error) {
	if first := v.FirstNews(); after+1 < first || after > v.LastNews() {
		return nil, refuse(OutOfRange, ReasonCursorGone,
			"cursor %d is not kept: events %d to %d are; watch again without a cursor to go on from now",
			after, first, v.LastNews())
	}
	var es []*holdfastv1.Event
	for e := range v.state.News.Ascend("", schema.Ordered(after)) {
		if len(es) == limit {
			break
		}
		es = append(es, e)
	}
	return es, nil
}

// lastHistory returns the sequence of the newest entry in a machine's history, or zero if
// there is none.
func lastHistory(s *core.State, machineID string) uint64 {
	key, ok := s.History.Last(machineID+"/", schema.HistoryKey(machineID, ^uint64(0)))
	if !ok {
		return 0
	}
	seq, err := strconv.ParseUint(key[len(key)-schema.OrderedSize:], 16, 64)
	if err != nil { // put and the bulk loader write a record under its own key
		panic(fmt.Sprintf("read the sequence of history entry %q: %v", key, err))
	}
	return seq
}

// addHistory adds an entry to a machine's history. If a deleted id is registered again, the
// sequence continues.
func addHistory(t *core.Tx, m *holdfastv1.Machine, e *holdfastv1.HistoryEntry) {
	e.MachineId, e.At, e.Sequence = m.GetMachineId(), t.Now, lastHistory(t.State, m.GetMachineId())+1
	if e.Principal == "" {
		e.Principal = t.Command.GetPrincipal()
	}
	t.History.Put(e)
	addNews(t, &holdfastv1.Event{Type: "machine." + e.GetFacet(), MachineId: e.GetMachineId(), Change: e})
}

// History returns the entries of a machine's history below a sequence number, newest first.
// If before is zero, it starts at the newest. The history outlives the machine.
func (v *View) History(machineID string, before uint64) iter.Seq[*holdfastv1.HistoryEntry] {
	if before == 0 {
		before = ^uint64(0)
	}
	return v.state.History.Descend(machineID+"/", schema.HistoryKey(machineID, before))
}

// maxServiceEvents bounds how far back a watcher can resume. It is a constant because every
// peer must keep the same events.
const maxServiceEvents = 1 << 14

// addServiceEvent records a change of a service. Cursors count from 1 without a gap. A ping
// that changes nothing is not an event.
func addServiceEvent(t *core.Tx, s *holdfastv1.Service) {
	t.Meta.LastServiceEvent++
	t.ServiceEvents.Put(&holdfastv1.ServiceEvent{Cursor: t.Meta.GetLastServiceEvent(), Service: s, At: t.Now})
	if t.Meta.GetFirstServiceEvent() == 0 {
		t.Meta.FirstServiceEvent = 1
	}
	for ; t.Meta.GetLastServiceEvent()-t.Meta.GetFirstServiceEvent() >= maxServiceEvents; t.Meta.FirstServiceEvent++ {
		t.ServiceEvents.Delete(schema.Ordered(t.Meta.GetFirstServiceEvent()))
	}
}

// LastServiceEvent returns the cursor of the newest event of services, or zero if there is
// none.
func (v *View) LastServiceEvent() uint64 { return v.state.Meta.GetLastServiceEvent() }

// ServiceEvents returns at most limit events of services with a cursor above after, oldest
// first. It returns the errors of Events.
func (v *View) ServiceEvents(after uint64, limit int) ([]*holdfastv1.ServiceEvent, error) {
	if first := v.state.Meta.GetFirstServiceEvent(); after+1 < first || after > v.LastServiceEvent() {
		return nil, refuse(OutOfRange, ReasonCursorGone,
			"cursor %d is not kept: events %d to %d are; watch again without a cursor to start from the current state",
			after, first, v.LastServiceEvent())
	}
	var es []*holdfastv1.ServiceEvent
	for e := range v.state.ServiceEvents.Ascend("", schema.Ordered(after)) {
		if len(es) == limit {
			break
		}
		es = append(es, e)
	}
	return es, nil
}
