package fsmtest

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// checkFleet checks that the states of machines, pools and services agree with their leases.
func checkFleet(v *fsm.View) error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	alive := func(kind internalv1.LeaseRef_Kind, id string) bool {
		l, ok := v.Lease(kind, id)
		return ok && l.GetExpiredAt() == nil
	}
	inPool, readyInPool := map[string]int32{}, map[string]int32{}
	var states fsm.StateCounts
	for m := range v.Machines("") {
		states[m.GetStatus().GetEffectiveState()]++
		id, s := m.GetMachineId(), m.GetStatus().GetAgentState()
		here := s == holdfastv1.Agent_REGISTERED || s == holdfastv1.Agent_READY
		if alive(internalv1.LeaseRef_MACHINE, id) != here ||
			alive(internalv1.LeaseRef_PENDING_MACHINE, id) != (s == holdfastv1.Agent_PENDING) {
			add("machine %s is %s, but its leases are alive: %t, pending: %t",
				id, s, alive(internalv1.LeaseRef_MACHINE, id),
				alive(internalv1.LeaseRef_PENDING_MACHINE, id))
		}
		if (s != holdfastv1.Agent_AGENT_STATE_UNSPECIFIED) != (m.GetAgent() != nil) {
			add("machine %s is %s with agent record %v", id, s, m.GetAgent())
		}
		for _, c := range m.GetStatus().GetConditions() {
			if c.GetType() == "AgentReady" && c.GetStatus() != (s == holdfastv1.Agent_READY) {
				add("machine %s is %s, but AgentReady is %t", id, s, c.GetStatus())
			}
		}
		if p := m.GetSpec().GetPool(); p != "" {
			inPool[p]++
			if s == holdfastv1.Agent_READY {
				readyInPool[p]++
			}
		}
		if n := m.GetNode().GetInstallAttempts(); n < 0 ||
			m.GetStatus().GetNodeState() == holdfastv1.Node_INSTALLED && n != 0 {
			add("machine %s is %s after %d failed installs", id, m.GetStatus().GetNodeState(), n)
		}
		for _, mac := range m.GetSpec().GetMacAddresses() {
			if other, ok := v.MachineByMAC(mac); !ok || other.GetMachineId() != id {
				add("MAC %s of machine %s names %s", mac, id, other.GetMachineId())
			}
		}
	}
	if got := v.CountStates(); got != states {
		add("machines by effective state are counted as %v, want %v", got, states)
	}
	for p := range v.Pools("") {
		id, s := p.GetPoolId(), p.GetStatus()
		on := s == holdfastv1.Pool_REGISTERED || s == holdfastv1.Pool_HEALTHY
		if alive(internalv1.LeaseRef_POOL, id) != on {
			add("pool %s is %s, but its lease is alive: %t", id, s, !on)
		}
		if p.GetMachines() != inPool[id] || p.GetMachinesReady() != readyInPool[id] {
			add("pool %s counts %d machines, %d ready, want %d, %d",
				id, p.GetMachines(), p.GetMachinesReady(), inPool[id], readyInPool[id])
		}
	}
	for s := range v.Services("") {
		if id := s.GetTarget().GetId(); alive(internalv1.LeaseRef_SERVICE, id) != s.GetActive() ||
			s.GetActive() && s.GetDeregistered() || len(s.GetStates()) > 10 {
			add("service %s is active: %t, deregistered: %t, with %d states and a lease alive: %t", id,
				s.GetActive(), s.GetDeregistered(), len(s.GetStates()),
				alive(internalv1.LeaseRef_SERVICE, id))
		}
	}
	for r := range v.ActiveRuns() {
		if r.GetObserved() &&
			(!alive(internalv1.LeaseRef_INSTALL, r.GetRunId()) ||
				!alive(internalv1.LeaseRef_INSTALL, r.GetRunId()+"/limit") || r.GetDeadline() == nil) {
			add("run %s is observed, and nothing would end it: deadline %v", r.GetRunId(), r.GetDeadline())
		}
	}
	return errors.Join(append(errs, checkLeases(v), checkServiceEvents(v), checkEvents(v))...)
}

// checkLeases checks that every live lease has an owner.
func checkLeases(v *fsm.View) error {
	var errs []error
	for l := range v.Leases() {
		ref, owned := l.GetRef(), false
		switch ref.GetKind() {
		case internalv1.LeaseRef_MACHINE, internalv1.LeaseRef_PENDING_MACHINE:
			_, owned = v.Machine(ref.GetId())
		case internalv1.LeaseRef_POOL:
			_, owned = v.Pool(ref.GetId())
		case internalv1.LeaseRef_SERVICE:
			_, owned = v.Service(ref.GetId())
		case internalv1.LeaseRef_INSTALL:
			var run *holdfastv1.Run
			run, owned = v.Run(strings.TrimSuffix(ref.GetId(), "/limit"))
			if owned = owned && run.GetObserved(); owned && fsm.Ended(run) != (l.GetExpiredAt() != nil) {
				errs = append(errs, fmt.Errorf("run %s is %s with lease %v", ref.GetId(), run.GetPhase(), l))
			}
		}
		if !owned && !l.GetGone() || l.GetGone() && l.GetExpiredAt() == nil {
			errs = append(errs, fmt.Errorf("lease %v has no owner, or has ended without a time", l))
		}
		if ref.GetGeneration() == 0 || l.GetTtlMs() <= 0 || l.GetSeenMs() > v.LeaseClock() ||
			l.GetRevision() == 0 || l.GetRevision() > v.Index() {
			errs = append(errs, fmt.Errorf("lease %v cannot be, at index %d and lease clock %d",
				l, v.Index(), v.LeaseClock()))
		}
	}
	return errors.Join(errs...)
}

// checkServiceEvents checks that cursors are consecutive, and that the last event of a
// service shows its present state.
func checkServiceEvents(v *fsm.View) error {
	cursor := max(v.Meta().GetFirstServiceEvent(), 1) - 1
	events, err := v.ServiceEvents(cursor, int(v.LastServiceEvent()))
	if err != nil {
		return fmt.Errorf("read all events of services: %w", err)
	}
	last := map[string]*holdfastv1.Service{}
	for _, e := range events {
		if cursor++; e.GetCursor() != cursor {
			return fmt.Errorf("service event %d comes after %d", e.GetCursor(), cursor-1)
		}
		last[e.GetService().GetTarget().GetId()] = e.GetService()
	}
	if cursor != v.LastServiceEvent() {
		return fmt.Errorf("service events end at %d, want %d", cursor, v.LastServiceEvent())
	}
	for s := range v.Services("") {
		e := last[s.GetTarget().GetId()]
		if e == nil {
			continue // no longer kept
		}
		s, e = proto.CloneOf(s), proto.CloneOf(e)
		s.LastSeen, e.LastSeen = nil, nil // pings are not events
		if !proto.Equal(s, e) {
			return fmt.Errorf("service %s is not as its last event says:\n%v\n%v", s.GetTarget().GetId(), s, e)
		}
	}
	return nil
}

// checkFleetStep checks the changes of leases between two states: generations rise,
// heartbeats never go back, and no lease expired within its TTL.
func checkFleetStep(before, after *fsm.View) error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if after.LeaseClock() < before.LeaseClock() || after.LastServiceEvent() < before.LastServiceEvent() {
		add("the lease clock went from %d to %d, service events from %d to %d",
			before.LeaseClock(), after.LeaseClock(), before.LastServiceEvent(), after.LastServiceEvent())
	}
	for old := range before.Leases() {
		ref := old.GetRef()
		l, ok := after.Lease(ref.GetKind(), ref.GetId())
		if !ok {
			if !old.GetGone() {
				add("lease %v has vanished", old)
			}
			continue
		}
		was, is := ref.GetGeneration(), l.GetRef().GetGeneration()
		switch {
		case is < was:
			add("lease %v went from generation %d to %d", ref, was, is)
		case is > was || old.GetExpiredAt() != nil:
			if is == was && l.GetExpiredAt() == nil {
				add("lease %v has come back without a new generation", ref)
			}
		case l.GetSeenMs() < old.GetSeenMs() || l.GetLastSeen().AsTime().Before(old.GetLastSeen().AsTime()):
			add("lease %v was seen at %d, then at %d", ref, old.GetSeenMs(), l.GetSeenMs())
		case l.GetExpiredAt() != nil && !l.GetGone() && after.LeaseClock()-old.GetSeenMs() < old.GetTtlMs():
			add("lease %v expired at %d, but was seen at %d and lasts %d",
				ref, after.LeaseClock(), old.GetSeenMs(), old.GetTtlMs())
		}
		moved := is != was || (l.GetExpiredAt() != nil) != (old.GetExpiredAt() != nil) || l.GetGone() != old.GetGone()
		if changed := l.GetRevision() != old.GetRevision(); changed != moved {
			add("lease %v went from %v to %v, but its revision from %d to %d",
				ref, old, l, old.GetRevision(), l.GetRevision())
		}
	}
	return errors.Join(errs...)
}
