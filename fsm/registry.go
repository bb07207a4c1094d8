package fsm

import (
	"fmt"
	"iter"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// The reasons of states that the server sets (discovery API, standard reasons).
const (
	StateHealthy          = "healthy"
	StateMissing          = "missing in action"
	StateAutoDeregistered = "inactive due to service auto-deregistration"
	stateDeregistered     = "deregistered"
)

// ReasonServiceNotFound is the reason for ids that were never registered.
const ReasonServiceNotFound = "SERVICE_NOT_FOUND"

const (
	maxStates      = 10 // states kept of a service
	maxServiceText = 255
	maxStateReason = 1024
	// forgetAfter is how long a deregistered service stays recorded, so that late pings are
	// recognized. After that its id counts as never registered. A client that has stored the
	// id can register again under it.
	forgetAfter = 30 * 24 * time.Hour
	forgetBatch = 16 // deleted by one registration, at most
)

func serviceNotFound(id string) *Error {
	return refuse(NotFound, ReasonServiceNotFound, "service %q was never registered", lex.Clip(id, 64)).
		With("service_id", lex.Clip(id, 64))
}

// ValidUUID reports whether a text is a UUID of 36 characters, as the ids of the discovery
// API are.
func ValidUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i, r := range []byte(s) {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if r != '-' {
				return false
			}
		} else if !strings.ContainsRune("0123456789abcdefABCDEF", rune(r)) {
			return false
		}
	}
	return true
}

// CheckTarget returns the violations of a target. An empty id is valid: the server generates
// one.
func CheckTarget(s *holdfastv1.ServiceTarget) []FieldViolation {
	var bad []FieldViolation
	add := func(field, format string, args ...any) {
		bad = append(bad, FieldViolation{Field: "target." + field, Description: fmt.Sprintf(format, args...)})
	}
	if s.GetId() != "" && !ValidUUID(s.GetId()) {
		add("id", "is not a UUID of 36 characters")
	}
	if s.GetServiceName() == "" {
		add("service_name", "is required")
	}
	if s.GetPort() < 0 || s.GetPort() > 65535 {
		add("port", "%d is not 0 to 65535", s.GetPort())
	}
	for _, f := range []struct{ name, value string }{
		{"service_name", s.GetServiceName()}, {"host", s.GetHost()},
		{"service_type", s.GetServiceType()}, {"service_sub_type", s.GetServiceSubType()},
		{"language_name", s.GetLanguageName()}, {"language_type", s.GetLanguageType()},
		{"language_sub_type", s.GetLanguageSubType()},
	} {
		if len(f.value) > maxServiceText || strings.ContainsAny(f.value, "\x00\n\r") {
			add(f.name, "must be one line of at most %d bytes", maxServiceText)
		}
	}
	return bad
}

// registerService registers a service. A client may register again under the id it has
// stored, even if it is no longer recorded.
func (t *tx) registerService(c *internalv1.RegisterService) (*holdfastv1.Service, *Error) {
	target := c.GetTarget()
	if target == nil {
		return nil, invalid("target", "is required")
	}
	if err := Invalid(CheckTarget(target)); err != nil {
		return nil, err
	}
	if target.GetId() == "" {
		if !ValidUUID(c.GetNewId()) {
			return nil, invalid("new_id", "is not a UUID of 36 characters")
		}
		if t.services.Has(c.GetNewId()) {
			return nil, refuse(Aborted, ReasonIDTaken, "generated service id %q is in use", c.GetNewId())
		}
		target.Id = c.GetNewId()
	}
	s, known := t.services.Get(target.GetId())
	if !known {
		s = &holdfastv1.Service{}
	}
	s.Target, s.Active, s.Deregistered, s.RegisteredAt, s.Principal = target, true, false, t.now, t.cmd.GetPrincipal()
	// From level 2 on, the record has only reported states.
	if !t.has(Level2) {
		t.addState(s, &holdfastv1.ServiceState{Timestamp: t.now, Healthy: true, Reason: StateHealthy})
	}
	t.grantLease(internalv1.LeaseRef_SERVICE, target.GetId(), c.GetTtlMs())
	t.putService(s)
	t.forgetServices()
	return t.wholeService(s), nil
}

// forgetServices deletes services that were deregistered long ago.
func (t *tx) forgetServices() {
	var stale []string
	for _, s := range t.services.Scan(schema.ServicesGone, "", "") {
		if len(stale) == forgetBatch || t.now.AsTime().Sub(s.GetUpdatedAt().AsTime()) < forgetAfter {
			break
		}
		stale = append(stale, s.GetTarget().GetId())
	}
	for _, id := range stale {
		t.services.Delete(id)
	}
}

// addState appends a state to the activity record.
func (t *tx) addState(s *holdfastv1.Service, state *holdfastv1.ServiceState) {
	if state.GetTimestamp() == nil || !state.GetTimestamp().IsValid() {
		state.Timestamp = t.now
	}
	state.Reason = lex.Clip(state.GetReason(), maxStateReason)
	s.States = append(s.GetStates(), state)
	s.States = s.States[max(0, len(s.States)-maxStates):]
}

// putService stores a service and adds the event of its change.
func (t *tx) putService(s *holdfastv1.Service) {
	s.UpdatedAt, s.Revision, s.LastSeen = t.now, t.index, nil
	t.services.Put(s)
	whole := t.wholeService(proto.CloneOf(s))
	t.addServiceEvent(whole)
	t.addNews(serviceNews(whole))
}

// updateServiceState records a state that a service reports. A state with a time can be
// repeated. The report is a heartbeat: a missing service is active again.
func (t *tx) updateServiceState(c *internalv1.UpdateServiceState) (*holdfastv1.Service, *Error) {
	s, ok := t.services.Get(c.GetId())
	if !ok {
		return nil, serviceNotFound(c.GetId())
	}
	if c.GetState() == nil {
		return nil, invalid("state", "is required")
	}
	if s.GetDeregistered() && !t.comesBack(s) { // a late report after the end of the registration
		return t.wholeService(s), nil
	}
	if t.has(Level2) && overtaken(s.GetStates(), c.GetState()) {
		return t.wholeService(s), nil
	}
	// A repeated state is recorded once.
	if n := len(s.GetStates()); n == 0 || !proto.Equal(s.GetStates()[n-1], c.GetState()) {
		t.addState(s, c.GetState())
	}
	s.Active, s.Deregistered = true, false
	t.grantLease(internalv1.LeaseRef_SERVICE, c.GetId(), 0)
	t.putService(s)
	return t.wholeService(s), nil
}

// overtaken reports whether a state is a late duplicate: it was recorded before, and a newer
// one followed.
func overtaken(states []*holdfastv1.ServiceState, s *holdfastv1.ServiceState) bool {
	for i := range max(0, len(states)-1) {
		if proto.Equal(states[i], s) {
			return true
		}
	}
	return false
}

// deregisterService deregisters a service. Its id stays known for a while, so that repeating
// the call changes nothing. A client without an id is found by name, host and port, if they
// are unique.
func (t *tx) deregisterService(c *internalv1.DeregisterService) (*holdfastv1.Service, *Error) {
	id := lex.First(c.GetId(), c.GetTarget().GetId())
	if id == "" {
		id = t.targetID(c.GetTarget())
	}
	s, ok := t.services.Get(id)
	if !ok {
		return nil, serviceNotFound(id)
	}
	if s.GetDeregistered() {
		return t.wholeService(s), nil
	}
	reason := stateDeregistered
	if c.GetByServer() && s.GetActive() && t.has(Level2) { // the service has returned
		return t.wholeService(s), nil
	}
	if c.GetByServer() {
		reason = StateAutoDeregistered
	}
	s.Active, s.Deregistered = false, true
	t.addState(s, &holdfastv1.ServiceState{Timestamp: t.now, Reason: reason})
	t.endLease(internalv1.LeaseRef_SERVICE, id)
	t.putService(s)
	return t.wholeService(s), nil
}

// targetID returns the id of the registered service with the name, host and port of a target,
// or "" if there is not exactly one.
func (t *tx) targetID(target *holdfastv1.ServiceTarget) string {
	id := ""
	if target.GetServiceName() == "" {
		return id
	}
	for s := range t.services.Ascend("", "") {
		if o := s.GetTarget(); !s.GetDeregistered() && o.GetServiceName() == target.GetServiceName() &&
			o.GetHost() == target.GetHost() && o.GetPort() == target.GetPort() {
			if id != "" {
				return ""
			}
			id = o.GetId()
		}
	}
	return id
}

// reviveService grants a lease to a missing service that pings again. One that was
// deregistered on request must register again.
func (t *tx) reviveService(id string) *internalv1.Lease {
	s, ok := t.services.Get(id)
	if !ok || s.GetDeregistered() && !t.comesBack(s) {
		return nil
	}
	return t.grantLease(internalv1.LeaseRef_SERVICE, id, 0)
}

// serviceSeen marks a missing service as active, and records the reported state.
func (t *tx) serviceSeen(id string, state *holdfastv1.ServiceState) {
	s, ok := t.services.Get(id)
	if !ok || s.GetActive() && state == nil {
		return
	}
	if state == nil {
		state = &holdfastv1.ServiceState{Timestamp: t.now, Healthy: true, Reason: StateHealthy}
	}
	t.addState(s, state)
	s.Active, s.Deregistered = true, false
	t.putService(s)
}

// ServiceMissingFor is how long a service is listed as missing before the server deregisters
// it.
const ServiceMissingFor = 24 * time.Hour

// AutoDeregistered reports whether the server has deregistered a service because it was
// missing for too long. Such a service returns with its next ping, because no one asked for
// the deregistration.
func AutoDeregistered(s *holdfastv1.Service) bool {
	n := len(s.GetStates())
	return s.GetDeregistered() && n > 0 && s.GetStates()[n-1].GetReason() == StateAutoDeregistered
}

func (t *tx) comesBack(s *holdfastv1.Service) bool { return t.has(Level2) && AutoDeregistered(s) }

// MissingServices returns at most most services that have been missing for longer than
// ServiceMissingFor.
func (v *View) MissingServices(now time.Time, most int) (ids []string) {
	for s := range v.services.Ascend("", "") {
		if len(ids) == most {
			break
		}
		if !s.GetActive() && !s.GetDeregistered() && now.Sub(s.GetUpdatedAt().AsTime()) > ServiceMissingFor {
			ids = append(ids, s.GetTarget().GetId())
		}
	}
	return ids
}

// serviceMissing marks a silent service as missing. It stays registered.
func (t *tx) serviceMissing(id string) {
	s, ok := t.services.Get(id)
	if !ok || s.GetDeregistered() {
		return
	}
	s.Active = false
	t.addState(s, &holdfastv1.ServiceState{Timestamp: t.now, Reason: StateMissing})
	t.putService(s)
}

// wholeService sets the fields that come from the lease.
func (s *state) wholeService(svc *holdfastv1.Service) *holdfastv1.Service {
	if l, ok := s.lease(internalv1.LeaseRef_SERVICE, svc.GetTarget().GetId()); ok {
		svc.LastSeen = l.GetLastSeen()
	}
	return svc
}

// Service returns a service, including deregistered ones until they are deleted.
func (v *View) Service(id string) (*holdfastv1.Service, bool) {
	s, ok := v.services.Get(id)
	if !ok {
		return nil, false
	}
	return v.wholeService(s), true
}

// Services returns the services with an id above after, by id, including deregistered ones.
func (v *View) Services(after string) iter.Seq[*holdfastv1.Service] {
	return func(yield func(*holdfastv1.Service) bool) {
		for s := range v.services.Ascend("", after) {
			if !yield(v.wholeService(s)) {
				return
			}
		}
	}
}
