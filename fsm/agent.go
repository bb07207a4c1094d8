package fsm

import (
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm/internal/access"
	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/events"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// maxAgentText bounds a text field of an agent, in bytes.
const maxAgentText = 255

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
		setCondition(t, m, lifecycle.AgentReady, true, reasonAgentKeepalive)
	case holdfastv1.Agent_REGISTERED:
		setCondition(t, m, lifecycle.AgentReady, false, reasonAgentRegistered)
	case holdfastv1.Agent_EXPIRED:
		observe(t, m, &holdfastv1.Condition{Type: lifecycle.AgentReady, Reason: reasonAgentExpired})
	}
}

func invalidPool(id string) *Error {
	return refuse(FailedPrecondition, ReasonPoolUnknown, "Invalid pool name").With("pool_id", id)
}

// poolOpen reports whether machines may join a pool.
func poolOpen(t *core.Tx, id string) (*holdfastv1.Pool, bool) {
	p, ok := t.Pools.Get(id)
	return p, ok && (p.GetDeclared() || p.GetStatus() != holdfastv1.Pool_ARCHIVED)
}

// createAgentMachine creates a machine that waits for its agent, with the agent's token. An
// existing machine of the pool without an agent may wait again, with another token.
func createAgentMachine(t *core.Tx, c *internalv1.CreateAgentMachine) (*holdfastv1.Machine, *Error) {
	pool, ok := poolOpen(t, c.GetPool())
	if !ok {
		return nil, invalidPool(c.GetPool())
	}
	id := c.GetMachineId()
	if !lex.ValidName(id, 64) {
		return nil, invalid("machine_id", "%q is not 1 to 64 letters, digits, '.', '_', '-' or ':'", id)
	}
	m, exists := t.Machines.Get(id)
	switch s := m.GetStatus(); {
	case exists && c.GetGeneratedId():
		return nil, refuse(Aborted, ReasonIDTaken, "generated machine id %q is in use", id)
	case exists && (m.GetSpec().GetPool() != c.GetPool() || s.GetPhase() == holdfastv1.MachineStatus_RETIRED ||
		s.GetAgentState() == holdfastv1.Agent_REGISTERED || s.GetAgentState() == holdfastv1.Agent_READY):
		return nil, refuse(AlreadyExists, "MACHINE_CONFLICT",
			"machine %q exists and cannot wait for an agent: it is in another pool, retired, or has one", id).
			With("machine_id", id)
	case !exists:
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
		movePhase(t, m, holdfastv1.MachineStatus_READY, change{by: "operator", comment: "created for an agent"})
	}
	moveAgent(t, m, holdfastv1.Agent_PENDING, "operator", "")
	m.Agent.ProviderName = lex.First(c.GetProviderName(), m.GetAgent().GetProviderName(), pool.GetProvider(),
		genericProvider)
	t.GrantLease(internalv1.LeaseRef_PENDING_MACHINE, id, c.GetPendingTtlMs())
	putMachine(t, m)
	return whole(t.State, m), nil
}

// newMachineRecord returns the record of a machine without inventory.
func newMachineRecord(t *core.Tx, id, pool string) *holdfastv1.Machine {
	return &holdfastv1.Machine{MachineId: id, CreatedAt: t.Now, Spec: &holdfastv1.MachineSpec{Pool: pool},
		Status: &holdfastv1.MachineStatus{NodeState: holdfastv1.Node_PENDING}}
}

// genericProvider is the provider of agents and pools that name none.
const genericProvider = "generic"

// registerAgent sets a machine's agent to registered, from any state. The machine's identity
// and history stay. A new machine is created on the fly, except for a token of one machine:
// that machine was deleted.
func registerAgent(t *core.Tx, c *internalv1.RegisterAgent) (*holdfastv1.Machine, *Error) {
	in := c.GetAgent()
	if err := Invalid(checkAgent(in)); err != nil {
		return nil, err
	}
	if _, ok := poolOpen(t, in.GetPoolName()); !ok {
		return nil, invalidPool(in.GetPoolName())
	}
	m, exists := t.Machines.Get(in.GetMachineId())
	switch {
	case !exists && t.Command.GetOrigin().GetRole() == holdfastv1.Role_AGENT:
		return nil, machineNotFound(in.GetMachineId())
	case exists && m.GetStatus().GetPhase() == holdfastv1.MachineStatus_RETIRED:
		return nil, refuse(FailedPrecondition, "MACHINE_RETIRED",
			"machine %q is RETIRED: its agent cannot register", m.GetMachineId()).
			With("machine_id", m.GetMachineId())
	case exists && m.GetSpec().GetPool() != "" && m.GetSpec().GetPool() != in.GetPoolName():
		return nil, invalidPool(in.GetPoolName()).With("machine_id", m.GetMachineId())
	}
	own, err := enrollment(t, m, in.GetMachineId(), c.GetToken())
	if err != nil {
		return nil, err
	}
	switch {
	case !exists:
		m = newMachineRecord(t, in.GetMachineId(), in.GetPoolName())
		movePhase(t, m, holdfastv1.MachineStatus_READY, change{by: "system", comment: "registered by its agent"})
	case m.GetSpec().GetPool() == "":
		m.Spec.Pool = in.GetPoolName()
		events.AddHistory(t, m, &holdfastv1.HistoryEntry{Facet: "inventory", To: "spec.pool", TriggeredBy: "system"})
	}
	moveAgent(t, m, holdfastv1.Agent_REGISTERED, "system", "")
	takeFacts(t, m, in)
	if own != nil {
		enroll(t, m, own)
	}
	a := m.GetAgent()
	a.RegisteredAt = t.Now
	if l, ok := t.Lease(internalv1.LeaseRef_MACHINE, m.GetMachineId()); ok {
		a.LastKeepalive = firstTime(lastKeepalive(l), a.GetLastKeepalive())
	}
	t.EndLease(internalv1.LeaseRef_PENDING_MACHINE, m.GetMachineId())
	t.GrantLease(internalv1.LeaseRef_MACHINE, m.GetMachineId(), c.GetTtlMs())
	putMachine(t, m)
	return whole(t.State, m), nil
}

// checkAgent returns the violations of a registration.
func checkAgent(in *holdfastv1.RegisterAgentRequest) []FieldViolation {
	var bad []FieldViolation
	if !lex.ValidName(in.GetMachineId(), 64) {
		bad = append(bad, FieldViolation{
			Field: "machine_id", Description: "is not 1 to 64 letters, digits, '.', '_', '-' or ':'",
		})
	}
	for _, f := range []struct{ name, value string }{
		{"hostname", in.GetHostname()}, {"provider_name", in.GetProviderName()}, {"private_ip", in.GetPrivateIp()},
	} {
		if len(f.value) > maxAgentText || strings.ContainsAny(f.value, "\x00\n\r") {
			bad = append(bad, FieldViolation{Field: f.name, Description: "must be one line of at most 255 bytes"})
		}
	}
	if in.GetCpuMillicores() < 0 || in.GetMemoryMib() < 0 || in.GetGpuCount() < 0 {
		bad = append(bad, FieldViolation{
			Field: "cpu_millicores", Description: "cpu, memory and GPU count must not be below zero",
		})
	}
	if mac := in.GetMacAddress(); mac != "" {
		if _, ok := lex.MAC(mac); !ok {
			bad = append(bad, FieldViolation{
				Field: "mac_address", Description: "is not a MAC address such as aa:bb:cc:dd:ee:ff",
			})
		}
	}
	for _, v := range CheckNode(in.GetHardware()) {
		bad = append(bad, FieldViolation{Field: "hardware." + v.Field, Description: v.Description})
	}
	return bad
}

// reviveMachine grants a lease to a known machine that sends a heartbeat without having one,
// whether it is pending or only in the inventory (docs/clients.md, 000). One whose lease has
// expired must register again first.
func reviveMachine(t *core.Tx, id string) *internalv1.Lease {
	m, ok := t.Machines.Get(id)
	if !ok || m.GetStatus().GetAgentState() == holdfastv1.Agent_EXPIRED {
		return nil
	}
	if l, ok := t.Lease(internalv1.LeaseRef_MACHINE, id); ok && l.GetExpiredAt() == nil {
		return l
	}
	t.EndLease(internalv1.LeaseRef_PENDING_MACHINE, id)
	return t.GrantLease(internalv1.LeaseRef_MACHINE, id, 0)
}

// agentReady sets the agent of a machine to ready.
func agentReady(t *core.Tx, id string) {
	if m, ok := t.Machines.Get(id); ok {
		moveAgent(t, m, holdfastv1.Agent_READY, "system", "")
		putMachine(t, m)
	}
}

// agentExpired marks the agent of a machine as expired: it was silent for too long, or never
// registered. Identity, inventory and history stay.
func agentExpired(t *core.Tx, l *internalv1.Lease) {
	m, ok := t.Machines.Get(l.GetRef().GetId())
	if !ok {
		return
	}
	comment := "no keepalive"
	if l.GetRef().GetKind() == internalv1.LeaseRef_PENDING_MACHINE {
		comment = "its agent has not registered"
	}
	moveAgent(t, m, holdfastv1.Agent_EXPIRED, "system", comment)
	putMachine(t, m)
}

// whole returns a machine with its computed fields and the data from its agent's lease.
func whole(s *core.State, m *holdfastv1.Machine) *holdfastv1.Machine {
	if a := m.GetAgent(); a != nil {
		if l, ok := s.Lease(internalv1.LeaseRef_MACHINE, m.GetMachineId()); ok && !l.GetGone() {
			a.Metrics, a.AgentVersion = l.GetMetrics(), l.GetAgentVersion()
			a.LastKeepalive = firstTime(lastKeepalive(l), a.GetLastKeepalive())
		}
	}
	return lifecycle.Derive(m, s.Meta.GetNow())
}

// lastKeepalive returns the time of the last heartbeat, or nil if there was none since the
// registration.
func lastKeepalive(l *internalv1.Lease) *timestamppb.Timestamp {
	if l.GetGone() || !l.GetReady() && !l.GetLastSeen().AsTime().After(l.GetGrantedAt().AsTime()) {
		return nil
	}
	return l.GetLastSeen()
}

func firstTime(a, b *timestamppb.Timestamp) *timestamppb.Timestamp {
	if a != nil {
		return a
	}
	return b
}

// hardwarePaths returns the fields of the node facet that an agent may set: those read from
// the hardware. Host name and address have fields of their own in the registration.
func hardwarePaths() []string {
	return []string{"vendor", "model", "serial_number", "system_uuid", "arch", "boot_mode"}
}

// takeFacts copies the facts in an agent's registration to its machine. All changes are one
// history entry. Facts claim no unique keys: only the inventory's MAC addresses and serial
// numbers do.
func takeFacts(t *core.Tx, m *holdfastv1.Machine, in *holdfastv1.RegisterAgentRequest) {
	a, d := m.GetAgent(), factDiff{again: m.GetAgent().GetRegisteredAt() != nil}
	text := func(name string, field *string, is string) {
		d.note("agent."+name, *field, is)
		*field = is
	}
	count := func(name string, field *int64, is int64) {
		d.note("agent."+name, strconv.FormatInt(*field, 10), strconv.FormatInt(is, 10))
		*field = is
	}
	text("provider_name", &a.ProviderName, lex.First(in.GetProviderName(), a.GetProviderName(), genericProvider))
	text("hostname", &a.Hostname, in.GetHostname())
	text("private_ip", &a.PrivateIp, in.GetPrivateIp())
	if mac, ok := lex.MAC(in.GetMacAddress()); ok {
		text("mac_address", &a.MacAddress, mac)
	}
	gpus := int64(a.GetGpuCount())
	count("cpu_millicores", &a.CpuMillicores, in.GetCpuMillicores())
	count("memory_mib", &a.MemoryMib, in.GetMemoryMib())
	count("gpu_count", &gpus, int64(in.GetGpuCount()))
	a.GpuCount = in.GetGpuCount()
	takeHardware(t, m, in.GetHardware(), &d)
	if len(d.names) > 0 {
		events.AddHistory(t, m, &holdfastv1.HistoryEntry{
			Facet: "inventory", To: strings.Join(d.names, ", "), TriggeredBy: "agent", Metadata: d.values,
		})
	}
}

func takeHardware(t *core.Tx, m *holdfastv1.Machine, in *holdfastv1.NodeRecord, d *factDiff) {
	if in == nil {
		return
	}
	reported := nodeText(in)
	for _, p := range hardwarePaths() {
		is := *reported[p]
		if is == "" {
			continue
		}
		if m.Node == nil {
			m.Node = &holdfastv1.NodeRecord{}
		}
		field := nodeText(m.Node)[p]
		d.noteOver("node."+p, *field, is)
		*field = is
	}
}

// factDiff collects changed facts.
type factDiff struct {
	again  bool // the agent has registered before; otherwise its facts are new and not changes
	names  []string
	values map[string]string
}

func (d *factDiff) note(name, was, is string) {
	if d.again {
		d.noteOver(name, was, is)
	}
}

// noteOver records a change of a field that others than the agent may have set.
func (d *factDiff) noteOver(name, was, is string) {
	if was == is || was == "" && !d.again {
		return
	}
	if d.values == nil {
		d.values = map[string]string{}
	}
	d.names, d.values[name] = append(d.names, name), was+" -> "+is
}
