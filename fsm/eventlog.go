package fsm

import (
	"strings"

	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// maxNews bounds how far back a watcher and a webhook can resume. It is a constant because
// every peer must keep the same events.
const maxNews = 1 << 16

// addNews records an event for the watchers of all changes. Cursors count from 1 without a
// gap.
func (t *tx) addNews(e *holdfastv1.Event) {
	t.meta.LastNews++
	e.Cursor, e.Index, e.At = t.meta.GetLastNews(), t.index, t.now
	t.news.Put(e)
	if t.meta.GetFirstNews() == 0 {
		t.meta.FirstNews = 1
	}
	for ; t.meta.GetLastNews()-t.meta.GetFirstNews() >= maxNews; t.meta.FirstNews++ {
		t.news.Delete(schema.Ordered(t.meta.GetFirstNews()))
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
func (v *View) LastNews() uint64 { return v.meta.GetLastNews() }

// FirstNews returns the cursor of the oldest event kept, or zero if there is none.
func (v *View) FirstNews() uint64 { return v.meta.GetFirstNews() }

// News returns at most limit events with a cursor above after, oldest first. It returns the
// errors of Events.
func (v *View) News(after uint64, limit int) ([]*holdfastv1.Event, error) {
	if first := v.FirstNews(); after+1 < first || after > v.LastNews() {
		return nil, refuse(OutOfRange, ReasonCursorGone,
			"cursor %d is not kept: events %d to %d are; watch again without a cursor to go on from now",
			after, first, v.LastNews())
	}
	var es []*holdfastv1.Event
	for e := range v.news.Ascend("", schema.Ordered(after)) {
		if len(es) == limit {
			break
		}
		es = append(es, e)
	}
	return es, nil
}
