package fleet

import (
	"cmp"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/events"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	"github.com/holdfast-metal/holdfast/fsm/internal/shallow"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// The reasons of the condition AgentReady.
const (
	reasonAgentRegistered = "AgentRegistered"
	reasonAgentKeepalive  = "AgentKeepalive"
	reasonAgentExpired    = "AgentExpired"
)

// moveAgent changes the agent facet, with one history entry, and sets the condition
// AgentReady.
func moveAgent(t *core.Tx, m *holdfastv1.Machine, to holdfastv1.Agent_State, by, comment string) {
	s := m.GetStatus()
	if m.Agent == nil {
		m.Agent = &holdfastv1.AgentRecord{CreatedAt: t.Now}
	}
	if from := s.GetAgentState(); from != to {
		e := &holdfastv1.HistoryEntry{
			Facet: "agent", From: from.String(), To: to.String(), TriggeredBy: by, Comment: comment,
		}
		if from == holdfastv1.Agent_AGENT_STATE_UNSPECIFIED {
			e.From = ""
		}
		events.AddHistory(t, m, e)
		s.AgentState, m.Agent.StateChangedAt = to, t.Now
	}
	switch to {
	case holdfastv1.Agent_READY:
		SetCondition(t, m, lifecycle.AgentReady, true, reasonAgentKeepalive)
	case holdfastv1.Agent_REGISTERED:
		SetCondition(t, m, lifecycle.AgentReady, false, reasonAgentRegistered)
	case holdfastv1.Agent_EXPIRED:
		Observe(t, m, &holdfastv1.Condition{Type: lifecycle.AgentReady, Reason: reasonAgentExpired})
	}
}

// PoolOpen reports whether machines may join a pool.
func PoolOpen(t *core.Tx, id string) (*holdfastv1.Pool, bool) {
	p, ok := t.Pools.Get(id)
	return p, ok && (p.GetDeclared() || p.GetStatus() != holdfastv1.Pool_ARCHIVED)
}

// ReviveMachine grants a lease to a known machine that sends a heartbeat without having one,
// whether it is pending or only in the inventory (docs/clients.md, 000). One whose lease has
// expired must register again first.
func ReviveMachine(t *core.Tx, id string) *internalv1.Lease {
	m, ok := t.Machines.Get(id)
	if !ok || m.GetStatus().GetAgentState() == holdfastv1.Agent_EXPIRED ||
		m.GetStatus().GetPhase() == holdfastv1.MachineStatus_RETIRED {
		return nil
	}
	if l, ok := t.Lease(internalv1.LeaseRef_MACHINE, id); ok && l.GetExpiredAt() == nil {
		return l
	}
	t.EndLease(internalv1.LeaseRef_PENDING_MACHINE, id)
	return t.GrantLease(internalv1.LeaseRef_MACHINE, id, 0)
}

// AgentReady sets the agent of a machine to ready.
func AgentReady(t *core.Tx, id string) {
	if m, ok := Edit(t, id); ok {
		moveAgent(t, m, holdfastv1.Agent_READY, "system", "")
		PutMachine(t, m)
	}
}

// AgentExpired marks the agent of a machine as expired: it was silent for too long, or never
// registered. Identity, inventory and history stay.
func AgentExpired(t *core.Tx, l *internalv1.Lease) {
	m, ok := Edit(t, l.GetRef().GetId())
	if !ok {
		return
	}
	comment := "no keepalive"
	if l.GetRef().GetKind() == internalv1.LeaseRef_PENDING_MACHINE {
		comment = "its agent has not registered"
	}
	moveAgent(t, m, holdfastv1.Agent_EXPIRED, "system", comment)
	PutMachine(t, m)
}

// endAgent ends the agent of a machine that is retired: its heartbeats are refused, like its
// registration.
func endAgent(t *core.Tx, m *holdfastv1.Machine) {
	t.EndLease(internalv1.LeaseRef_PENDING_MACHINE, m.GetMachineId())
	t.EndLease(internalv1.LeaseRef_MACHINE, m.GetMachineId())
	switch m.GetStatus().GetAgentState() {
	case holdfastv1.Agent_PENDING, holdfastv1.Agent_REGISTERED, holdfastv1.Agent_READY:
		moveAgent(t, m, holdfastv1.Agent_EXPIRED, "system", "the machine is retired")
	}
}

// boundMetrics returns metrics that are possible for a machine with a number of GPUs.
func boundMetrics(x *holdfastv1.AgentMetrics, gpus int32) *holdfastv1.AgentMetrics {
	if x.GetFreeGpuCount() <= gpus {
		return x
	}
	x = proto.CloneOf(x)
	x.FreeGpuCount = gpus
	return x
}

// Whole returns a copy of a machine with its computed fields and the data from its agent's
// lease.
func Whole(s *core.State, m *holdfastv1.Machine) *holdfastv1.Machine {
	whole := lifecycle.Derive(m, s.Meta.GetNow())
	a := m.GetAgent()
	if a == nil {
		return whole
	}
	whole.Agent = shallow.Agent(a)
	if l, ok := s.Lease(internalv1.LeaseRef_MACHINE, m.GetMachineId()); ok && !l.GetGone() {
		whole.Agent.Metrics, whole.Agent.AgentVersion = boundMetrics(l.GetMetrics(), a.GetGpuCount()), l.GetAgentVersion()
		whole.Agent.LastKeepalive = cmp.Or(lastKeepalive(l), a.GetLastKeepalive())
		whole.Agent.TtlSeconds = ttlSeconds(l)
	}
	if m.GetStatus().GetAgentState() == holdfastv1.Agent_PENDING {
		if l, ok := s.Lease(internalv1.LeaseRef_PENDING_MACHINE, m.GetMachineId()); ok && !l.GetGone() {
			whole.Agent.TtlSeconds = ttlSeconds(l)
		}
	}
	return whole
}

// ttlSeconds returns how long a lease lasts without another heartbeat.
func ttlSeconds(l *internalv1.Lease) int64 { return l.GetTtlMs() / time.Second.Milliseconds() }

// lastKeepalive returns the time of the last heartbeat, or nil if there was none since the
// registration.
func lastKeepalive(l *internalv1.Lease) *timestamppb.Timestamp {
	if l.GetGone() || !l.GetReady() && !l.GetLastSeen().AsTime().After(l.GetGrantedAt().AsTime()) {
		return nil
	}
	return l.GetLastSeen()
}
