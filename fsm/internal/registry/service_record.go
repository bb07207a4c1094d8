package registry

import (
	"iter"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/events"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// putService stores a service and adds the event of its change.
func putService(t *core.Tx, s *holdfastv1.Service) {
	s.UpdatedAt, s.Revision, s.LastSeen = t.Now, t.Index, nil
	t.Services.Put(s)
	whole := wholeService(t.State, s)
	events.AddServiceEvent(t, whole)
	events.AddEvent(t, serviceEvent(whole))
}

// addState appends a state to the activity record.
func addState(t *core.Tx, s *holdfastv1.Service, state *holdfastv1.ServiceState) {
	if state.GetTimestamp() == nil || !state.GetTimestamp().IsValid() {
		state.Timestamp = t.Now
	}
	state.Reason = lex.Clip(state.GetReason(), maxStateReason)
	s.States = append(s.GetStates(), state)
	s.States = s.States[max(0, len(s.States)-maxStates):]
}

// serviceEvent returns the event of a changed service.
func serviceEvent(s *holdfastv1.Service) *holdfastv1.Event {
	e := &holdfastv1.Event{Type: "service.inactive", Service: s}
	switch {
	case s.GetDeregistered():
		e.Type = "service.deregistered"
	case s.GetActive():
		e.Type = "service.active"
	}
	return e
}

// forgetServices deletes services that were deregistered long ago.
func forgetServices(t *core.Tx) {
	var stale []string
	for _, s := range t.Services.Scan(schema.ServicesGone, "", "") {
		if len(stale) == forgetBatch || t.Now.AsTime().Sub(s.GetUpdatedAt().AsTime()) < forgetAfter {
			break
		}
		stale = append(stale, s.GetTarget().GetId())
	}
	for _, id := range stale {
		t.Services.Delete(id)
	}
}

// MissingServices returns at most most services that have been missing for longer than
// ServiceMissingFor.
func (v *View) MissingServices(now time.Time, most int) (ids []string) {
	for s := range v.s.Services.Ascend("", "") {
		if len(ids) == most {
			break
		}
		if !s.GetActive() && !s.GetDeregistered() && now.Sub(s.GetUpdatedAt().AsTime()) > ServiceMissingFor {
			ids = append(ids, s.GetTarget().GetId())
		}
	}
	return ids
}

// wholeService returns a copy of a service with the fields that come from the lease.
func wholeService(s *core.State, svc *holdfastv1.Service) *holdfastv1.Service {
	svc = proto.CloneOf(svc)
	if l, ok := s.Lease(internalv1.LeaseRef_SERVICE, svc.GetTarget().GetId()); ok {
		svc.LastSeen = l.GetLastSeen()
	}
	return svc
}

// Service returns a service, including deregistered ones until they are deleted.
func (v *View) Service(id string) (*holdfastv1.Service, bool) {
	s, ok := v.s.Services.Get(id)
	if !ok {
		return nil, false
	}
	return wholeService(v.s, s), true
}

// Services returns the services with an id above after, by id, including deregistered ones.
func (v *View) Services(after string) iter.Seq[*holdfastv1.Service] {
	return table.Map(v.s.Services.Ascend("", after), func(s *holdfastv1.Service) *holdfastv1.Service {
		return wholeService(v.s, s)
	})
}
