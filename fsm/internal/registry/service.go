package registry

import (
	"cmp"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// The reasons of states that the server sets (discovery API, standard reasons).
const (
	stateHealthy          = "healthy"
	stateMissing          = "missing in action"
	stateAutoDeregistered = "inactive due to service auto-deregistration"
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

func serviceNotFound(id string) *refusal.Error {
	return refusal.New(refusal.NotFound, ReasonServiceNotFound, "service %q was never registered", lex.Clip(id, 64)).
		With("service_id", lex.Clip(id, 64))
}

// RegisterService registers a service. A client may register again under the id it has
// stored, even if it is no longer recorded.
func RegisterService(t *core.Tx, c *internalv1.RegisterService) (*holdfastv1.Service, *refusal.Error) {
	target := c.GetTarget()
	if target == nil {
		return nil, refusal.InvalidField("target", "is required")
	}
	if err := refusal.Invalid(CheckTarget(target)); err != nil {
		return nil, err
	}
	if target.GetId() == "" {
		if !validUUID(c.GetNewId()) {
			return nil, refusal.InvalidField("new_id", "is not a UUID of 36 characters")
		}
		if t.Services.Has(c.GetNewId()) {
			return nil, refusal.New(refusal.Aborted, refusal.ReasonIDTaken, "generated service id %q is in use",
				c.GetNewId())
		}
		target.Id = c.GetNewId()
	}
	s, known := t.Services.Edit(target.GetId())
	if !known {
		s = &holdfastv1.Service{}
	}
	s.Target, s.Active, s.Deregistered = target, true, false
	s.RegisteredAt, s.Principal = t.Now, t.Command.GetPrincipal()
	t.GrantLease(internalv1.LeaseRef_SERVICE, target.GetId(), c.GetTtlMs())
	putService(t, s)
	forgetServices(t)
	return wholeService(t.State, s), nil
}

// UpdateServiceState records a state that a service reports. A state with a time can be
// repeated. The report is a heartbeat: a missing service is active again.
func UpdateServiceState(t *core.Tx, c *internalv1.UpdateServiceState) (*holdfastv1.Service, *refusal.Error) {
	s, ok := t.Services.Edit(c.GetId())
	if !ok {
		return nil, serviceNotFound(c.GetId())
	}
	if c.GetState() == nil {
		return nil, refusal.InvalidField("state", "is required")
	}
	if s.GetDeregistered() && !AutoDeregistered(s) { // a late report after the end of the registration
		return wholeService(t.State, s), nil
	}
	if overtaken(s.GetStates(), c.GetState()) {
		return wholeService(t.State, s), nil
	}
	// A repeated state is recorded once.
	if n := len(s.GetStates()); n == 0 || !proto.Equal(s.GetStates()[n-1], c.GetState()) {
		addState(t, s, c.GetState())
	}
	s.Active, s.Deregistered = true, false
	t.GrantLease(internalv1.LeaseRef_SERVICE, c.GetId(), 0)
	putService(t, s)
	return wholeService(t.State, s), nil
}

// overtaken reports whether a state is a late duplicate: it was recorded before, and a newer
// one followed.
func overtaken(states []*holdfastv1.ServiceState, s *holdfastv1.ServiceState) bool {
	same := func(old *holdfastv1.ServiceState) bool { return proto.Equal(old, s) }
	return slices.ContainsFunc(states[:max(0, len(states)-1)], same)
}

// DeregisterService deregisters a service. Its id stays known for a while, so that repeating
// the call changes nothing. A client without an id is found by name, host and port, if they
// are unique.
func DeregisterService(t *core.Tx, c *internalv1.DeregisterService) (*holdfastv1.Service, *refusal.Error) {
	id := cmp.Or(c.GetId(), c.GetTarget().GetId())
	if id == "" {
		id = targetID(t, c.GetTarget())
	}
	s, ok := t.Services.Edit(id)
	if !ok {
		return nil, serviceNotFound(id)
	}
	if s.GetDeregistered() {
		return wholeService(t.State, s), nil
	}
	reason := stateDeregistered
	if c.GetByServer() && s.GetActive() { // the service has returned
		return wholeService(t.State, s), nil
	}
	if c.GetByServer() {
		reason = stateAutoDeregistered
	}
	s.Active, s.Deregistered = false, true
	addState(t, s, &holdfastv1.ServiceState{Timestamp: t.Now, Reason: reason})
	t.EndLease(internalv1.LeaseRef_SERVICE, id)
	putService(t, s)
	return wholeService(t.State, s), nil
}

// targetID returns the id of the registered service with the name, host and port of a target,
// or "" if there is not exactly one.
func targetID(t *core.Tx, target *holdfastv1.ServiceTarget) string {
	id := ""
	if target.GetServiceName() == "" {
		return id
	}
	for _, s := range t.Services.Scan(schema.ServicesByEndpoint, schema.EndpointKey(target), "") {
		if id != "" {
			return ""
		}
		id = s.GetTarget().GetId()
	}
	return id
}

// ReviveService grants a lease to a missing service that pings again. One that was
// deregistered on request must register again.
func ReviveService(t *core.Tx, id string) *internalv1.Lease {
	s, ok := t.Services.Get(id)
	if !ok || s.GetDeregistered() && !AutoDeregistered(s) {
		return nil
	}
	return t.GrantLease(internalv1.LeaseRef_SERVICE, id, 0)
}

// ServiceSeen marks a missing service as active, and records the reported state.
func ServiceSeen(t *core.Tx, id string, state *holdfastv1.ServiceState) {
	s, ok := t.Services.Edit(id)
	if !ok || s.GetActive() && state == nil {
		return
	}
	if state == nil {
		state = &holdfastv1.ServiceState{Timestamp: t.Now, Healthy: true, Reason: stateHealthy}
	}
	addState(t, s, state)
	s.Active, s.Deregistered = true, false
	putService(t, s)
}

// ServiceMissingFor is how long a service is listed as missing before the server deregisters
// it.
const ServiceMissingFor = 24 * time.Hour

// AutoDeregistered reports whether the server has deregistered a service because it was
// missing for too long. Such a service returns with its next ping, because no one asked for
// the deregistration.
func AutoDeregistered(s *holdfastv1.Service) bool {
	n := len(s.GetStates())
	return s.GetDeregistered() && n > 0 && s.GetStates()[n-1].GetReason() == stateAutoDeregistered
}

// ServiceMissing marks a silent service as missing. It stays registered.
func ServiceMissing(t *core.Tx, id string) {
	s, ok := t.Services.Edit(id)
	if !ok || s.GetDeregistered() {
		return
	}
	s.Active = false
	addState(t, s, &holdfastv1.ServiceState{Timestamp: t.Now, Reason: stateMissing})
	putService(t, s)
}
