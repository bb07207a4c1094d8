package fleet

import (
	"cmp"

	"github.com/holdfast-metal/holdfast/fsm/internal/access"
	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/events"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// ReasonPoolUnknown is the reason for refusing a machine whose pool does not exist.
const ReasonPoolUnknown = "POOL_UNKNOWN"

func invalidPool(id string) *refusal.Error {
	return refusal.New(refusal.FailedPrecondition, ReasonPoolUnknown, "Invalid pool name").With("pool_id", id)
}

// CreateAgentMachine creates a machine that waits for its agent, with the agent's token. An
// existing machine of the pool without an agent may wait again, with another token.
func CreateAgentMachine(t *core.Tx, c *internalv1.CreateAgentMachine) (*holdfastv1.Machine, *refusal.Error) {
	pool, ok := PoolOpen(t, c.GetPool())
	if !ok {
		return nil, invalidPool(c.GetPool())
	}
	id := c.GetMachineId()
	if !lex.ValidName(id, 64) {
		return nil, refusal.InvalidField("machine_id", "%q is not 1 to 64 letters, digits, '.', '_', '-' or ':'", id)
	}
	m, exists := t.Machines.Edit(id)
	switch s := m.GetStatus(); {
	case exists && c.GetGeneratedId():
		return nil, refusal.New(refusal.Aborted, refusal.ReasonIDTaken, "generated machine id %q is in use", id)
	case exists && (m.GetSpec().GetPool() != c.GetPool() || s.GetPhase() == holdfastv1.MachineStatus_RETIRED ||
		s.GetAgentState() == holdfastv1.Agent_REGISTERED || s.GetAgentState() == holdfastv1.Agent_READY):
		return nil, refusal.New(refusal.AlreadyExists, "MACHINE_CONFLICT",
			"machine %q exists and cannot wait for an agent: it is in another pool, retired, or has one", id).
			With("machine_id", id)
	case !exists:
		if err := checkSpelling(t, id); err != nil {
			return nil, err
		}
		m = newMachineRecord(t, id, c.GetPool())
	}
	if tok := c.GetToken(); tok != nil {
		if tok.Token == nil {
			tok.Token = &holdfastv1.Token{}
		}
		tok.Token.Role, tok.Token.MachineId, tok.Token.Pools = holdfastv1.Role_AGENT, id, nil
		if err := access.AdmitToken(t, tok); err != nil {
			return nil, err
		}
		access.RevokeAgents(t, id)
		access.StoreToken(t, tok)
		if m.GetAgent().GetTokenId() != "" {
			m.Agent.TokenId = ""
		}
	}
	if !exists {
		MovePhase(t, m, holdfastv1.MachineStatus_READY, Change{By: "operator", Comment: "created for an agent"})
	}
	moveAgent(t, m, holdfastv1.Agent_PENDING, "operator", "")
	m.Agent.ProviderName = cmp.Or(c.GetProviderName(), m.GetAgent().GetProviderName(), pool.GetProvider(),
		GenericProvider)
	t.GrantLease(internalv1.LeaseRef_PENDING_MACHINE, id, c.GetPendingTtlMs())
	PutMachine(t, m)
	return Whole(t.State, m), nil
}

// newMachineRecord returns the record of a machine without inventory.
func newMachineRecord(t *core.Tx, id, pool string) *holdfastv1.Machine {
	return &holdfastv1.Machine{MachineId: id, CreatedAt: t.Now, Spec: &holdfastv1.MachineSpec{Pool: pool},
		Status: &holdfastv1.MachineStatus{NodeState: holdfastv1.Node_PENDING}}
}

// GenericProvider is the provider of agents and pools that name none.
const GenericProvider = "generic"

// RegisterAgent sets a machine's agent to registered, from any state. The machine's identity
// and history stay. A new machine is created on the fly, except for a token of one machine:
// that machine was deleted.
func RegisterAgent(t *core.Tx, c *internalv1.RegisterAgent) (*holdfastv1.Machine, *refusal.Error) {
	in := c.GetAgent()
	if err := refusal.Invalid(checkAgent(in)); err != nil {
		return nil, err
	}
	if _, ok := PoolOpen(t, in.GetPoolName()); !ok {
		return nil, invalidPool(in.GetPoolName())
	}
	m, exists := t.Machines.Edit(in.GetMachineId())
	switch {
	case !exists && t.Command.GetOrigin().GetRole() == holdfastv1.Role_AGENT:
		return nil, MachineNotFound(in.GetMachineId())
	case exists && m.GetStatus().GetPhase() == holdfastv1.MachineStatus_RETIRED:
		return nil, refusal.New(refusal.FailedPrecondition, "MACHINE_RETIRED",
			"machine %q is RETIRED: its agent cannot register", m.GetMachineId()).
			With("machine_id", m.GetMachineId())
	case exists && m.GetSpec().GetPool() != "" && m.GetSpec().GetPool() != in.GetPoolName():
		return nil, invalidPool(in.GetPoolName()).With("machine_id", m.GetMachineId())
	}
	if !exists {
		if err := checkSpelling(t, in.GetMachineId()); err != nil {
			return nil, err
		}
	}
	own, err := enrollment(t, m, in.GetMachineId(), c.GetToken())
	if err == nil && !exists {
		err = checkUnapproved(t, in.GetPoolName(), c.GetEnrollLimit())
	}
	if err != nil {
		return nil, err
	}
	switch {
	case !exists:
		m = newMachineRecord(t, in.GetMachineId(), in.GetPoolName())
		MovePhase(t, m, holdfastv1.MachineStatus_READY, Change{By: "system", Comment: "registered by its agent"})
	case m.GetSpec().GetPool() == "":
		m.Spec.Pool = in.GetPoolName()
		events.AddHistory(t, m, &holdfastv1.HistoryEntry{Facet: "inventory", To: "spec.pool", TriggeredBy: "system"})
	}
	moveAgent(t, m, holdfastv1.Agent_REGISTERED, "system", "")
	copyFacts(t, m, in)
	m.Agent.Unapproved = m.GetAgent().GetUnapproved() || !exists && byAgent(t)
	if own != nil {
		enroll(t, m, own)
	}
	a := m.GetAgent()
	a.RegisteredAt = t.Now
	if l, ok := t.Lease(internalv1.LeaseRef_MACHINE, m.GetMachineId()); ok {
		a.LastKeepalive = cmp.Or(lastKeepalive(l), a.GetLastKeepalive())
	}
	t.EndLease(internalv1.LeaseRef_PENDING_MACHINE, m.GetMachineId())
	t.GrantLease(internalv1.LeaseRef_MACHINE, m.GetMachineId(), c.GetTtlMs())
	PutMachine(t, m)
	return Whole(t.State, m), nil
}
