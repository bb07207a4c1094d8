package fsm

import (
	"iter"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// The indexes of machines.
const (
	machinesByOwned  = iota // keys that at most one machine may have
	machinesBySecret        // referenced secrets
	machinesByPool
	machinesPoolReady // by pool, machines whose agent is ready
	machinesPassing   // nodes in a transient state, by the time they entered it
	machinesEnrolled  // machines whose agent has its own token
	machineIndexes    // the number of indexes
)

func machineSchema() *schema[*holdfastv1.Machine] {
	return &schema[*holdfastv1.Machine]{
		kind:    internalv1.SnapshotRecord_MACHINES,
		key:     (*holdfastv1.Machine).GetMachineId,
		indexes: machineIndexes,
		index:   indexMachine,
		facets:  machineFacets,
		partial: partialMachine,
	}
}

func indexMachine(m *holdfastv1.Machine, add func(index int, key string)) {
	for _, key := range owned(m) {
		add(machinesByOwned, key)
	}
	for _, name := range credentials(m) {
		add(machinesBySecret, secretKey(name))
	}
	if p := m.GetSpec().GetPool(); p != "" {
		key := poolKey(p) + m.GetMachineId()
		add(machinesByPool, key)
		if m.GetStatus().GetAgentState() == holdfastv1.Agent_READY {
			add(machinesPoolReady, key)
		}
	}
	if m.GetAgent().GetTokenId() != "" {
		add(machinesEnrolled, m.GetMachineId())
	}
	if lifecycle.Passing(m) {
		add(machinesPassing, orderedTime(m.GetNode().GetStateChangedAt(), m.GetMachineId()))
	}
}

// owned returns the keys that no other machine may have (docs/concepts.md).
func owned(m *holdfastv1.Machine) []string {
	keys := make([]string, 0, len(m.GetSpec().GetMacAddresses())+2)
	for _, mac := range m.GetSpec().GetMacAddresses() {
		keys = append(keys, "MAC address "+mac)
	}
	if e := m.GetSpec().GetBmcEndpoint(); e != "" {
		keys = append(keys, "BMC endpoint "+lex.Lower(e))
	}
	if s := m.GetSpec().GetSerial(); s != "" {
		keys = append(keys, "serial "+s)
	}
	return keys
}

// ProviderOf returns the provider named by a machine, or "" if configuration decides.
// StartRun.checked_provider is compared with it.
func ProviderOf(m *holdfastv1.Machine) string {
	if p := m.GetSpec().GetProvider(); p != "" {
		return p
	}
	return m.GetLabels()["provider"]
}

// ProviderOf returns the provider named by a machine, and whether the machine exists, without
// decoding it.
func (v *View) ProviderOf(machineID string) (provider string, ok bool) {
	r, ok := v.machines.rows.Get(&record{key: machineID})
	if !ok {
		return "", false
	}
	for _, f := range r.facets {
		switch f.path {
		case "spec.provider":
			return f.value, true
		case labelPath + "provider":
			provider = f.value
		}
	}
	return provider, true
}

func machineNotFound(id string) *Error {
	return refuse(NotFound, "MACHINE_NOT_FOUND", "machine %q not found", id).With("machine_id", id)
}

// checkOwned refuses a machine with a key that belongs to another one.
func (t *tx) checkOwned(m *holdfastv1.Machine) *Error {
	for _, key := range owned(m) {
		if other, ok := t.machines.lookup(machinesByOwned, key); ok && other.GetMachineId() != m.GetMachineId() {
			return refuse(AlreadyExists, "MACHINE_CONFLICT", "%s belongs to machine %q", key, other.GetMachineId()).
				With("machine_id", other.GetMachineId())
		}
	}
	return nil
}

// checkSteady refuses to change the hardware of a machine during an active run, because the
// run would operate other hardware.
func checkSteady(old, m *holdfastv1.Machine) *Error {
	run := old.GetStatus().GetActiveRunId()
	if run == "" {
		return nil
	}
	if movesHardware(old, m) {
		return refuse(FailedPrecondition, ReasonActiveRun,
			"machine %q has the active run %s: its provider and endpoints cannot change before that ends",
			m.GetMachineId(), run).
			With("run_id", run)
	}
	return nil
}

// registerMachine creates a machine, or replaces its spec or labels if the request has them.
func (t *tx) registerMachine(c *internalv1.RegisterMachine) (*holdfastv1.Machine, *Error) {
	in := c.GetMachine()
	if err := Invalid(NormalizeMachine(in)); err != nil {
		return nil, err
	}
	if in.GetMachineId() == "" {
		return nil, invalid("machine.machine_id", "is required")
	}
	old, exists := t.machines.get(in.GetMachineId())
	if exists {
		if c.GetGeneratedId() {
			return nil, refuse(Aborted, ReasonIDTaken, "generated machine id %q is in use", in.GetMachineId())
		}
		m := proto.CloneOf(old)
		if in.GetSpec() != nil {
			m.Spec = in.GetSpec()
		}
		if len(in.GetLabels()) > 0 {
			m.Labels = in.GetLabels()
		}
		return t.replaceInventory(old, m)
	}
	m := &holdfastv1.Machine{MachineId: in.GetMachineId(), Labels: in.GetLabels(), Spec: in.GetSpec(), CreatedAt: t.now,
		Status: &holdfastv1.MachineStatus{NodeState: holdfastv1.Node_PENDING}}
	if m.Spec == nil {
		m.Spec = &holdfastv1.MachineSpec{}
	}
	if err := t.checkOwned(m); err != nil {
		return nil, err
	}
	if err := t.checkSecretPools(m); err != nil {
		return nil, err
	}
	phase := holdfastv1.MachineStatus_READY
	if in.GetStatus().GetPhase() == holdfastv1.MachineStatus_FACTORY_READY {
		phase = holdfastv1.MachineStatus_FACTORY_READY
	}
	t.movePhase(m, phase, change{by: "operator", comment: "registered"})
	t.putMachine(m)
	return t.whole(m), nil
}

// updateMachine replaces spec and labels, or the fields in the mask.
func (t *tx) updateMachine(c *internalv1.UpdateMachine) (*holdfastv1.Machine, *Error) {
	in := c.GetMachine()
	old, ok := t.machines.get(in.GetMachineId())
	if !ok {
		return nil, machineNotFound(in.GetMachineId())
	}
	m := proto.CloneOf(old)
	if err := t.mergeMachine(m, in, c.GetPaths()); err != nil {
		return nil, err
	}
	if err := Invalid(NormalizeMachine(m)); err != nil {
		return nil, err
	}
	return t.replaceInventory(old, m)
}

func (t *tx) replaceInventory(old, m *holdfastv1.Machine) (*holdfastv1.Machine, *Error) {
	if err := t.checkOwned(m); err != nil {
		return nil, err
	}
	if err := checkSteady(old, m); err != nil {
		return nil, err
	}
	if err := t.checkSecretPools(m); err != nil {
		return nil, err
	}
	if changed := inventoryDiff(old, m); changed != "" {
		t.addHistory(m, &holdfastv1.HistoryEntry{Facet: "inventory", To: changed, TriggeredBy: "operator"})
		t.putMachine(m)
	}
	return t.whole(m), nil
}

// setMachinePhase moves a machine by hand, along the transitions allowed to operators.
func (t *tx) setMachinePhase(c *internalv1.SetMachinePhase) (*holdfastv1.Machine, *Error) {
	m, ok := t.machines.get(c.GetMachineId())
	if !ok {
		return nil, machineNotFound(c.GetMachineId())
	}
	from, to := m.GetStatus().GetPhase(), c.GetPhase()
	if run := m.GetStatus().GetActiveRunId(); run != "" {
		return nil, refuse(FailedPrecondition, ReasonActiveRun,
			"machine %q has the active run %s: cancel it or wait for it",
			m.GetMachineId(), run).
			With("run_id", run)
	}
	if from == to {
		return t.whole(m), nil
	}
	if err := lifecycle.CheckPhase(m.GetMachineId(), from, to); err != nil {
		return nil, err
	}
	if to == holdfastv1.MachineStatus_READY || to == holdfastv1.MachineStatus_IN_SERVICE {
		t.setCondition(m, lifecycle.NeedsIntervention, false, "Cleared")
	}
	t.movePhase(m, to, change{by: "operator", comment: c.GetComment()})
	t.putMachine(m)
	return t.whole(m), nil
}

// retryBMC allows logins to the machine's BMC again. The provider reads the time from the
// machine.
func (t *tx) retryBMC(c *internalv1.RetryBmc) (*holdfastv1.Machine, *Error) {
	m, ok := t.machines.get(c.GetMachineId())
	if !ok {
		return nil, machineNotFound(c.GetMachineId())
	}
	m.Status.BmcRetryAt = t.now
	t.addHistory(m, &holdfastv1.HistoryEntry{Facet: "bmc", To: "logins allowed", TriggeredBy: "operator"})
	t.putMachine(m)
	return t.whole(m), nil
}

// deleteMachine deletes a machine. Its runs and its history stay, and its id can be
// registered again.
func (t *tx) deleteMachine(c *internalv1.DeleteMachine) *Error {
	m, ok := t.machines.get(c.GetMachineId())
	if !ok {
		return machineNotFound(c.GetMachineId())
	}
	run := m.GetStatus().GetActiveRunId()
	if console, ok := t.consoleOf(m.GetMachineId()); ok && run == "" {
		run = console.GetRunId()
	}
	if run != "" {
		return refuse(FailedPrecondition, ReasonActiveRun, "machine %q has the active run %s: cancel it or wait for it",
			m.GetMachineId(), run).
			With("run_id", run)
	}
	t.addHistory(m, &holdfastv1.HistoryEntry{Facet: "inventory", To: "deleted", TriggeredBy: "operator"})
	t.revokeAgents(m.GetMachineId())
	t.endMachineLeases(m.GetMachineId())
	t.forgetHost(m.GetMachineId())
	t.hardware.delete(m.GetMachineId())
	t.installs.delete(m.GetMachineId())
	t.machines.delete(m.GetMachineId())
	return nil
}

func (t *tx) putMachine(m *holdfastv1.Machine) {
	m.UpdatedAt, m.Revision = t.now, t.index
	t.machines.put(m)
}

// Machine returns a machine with its effective state.
func (v *View) Machine(id string) (*holdfastv1.Machine, bool) {
	m, ok := v.machines.get(id)
	if !ok {
		return nil, false
	}
	return v.whole(m), true
}

// MachineMark returns a value that changes whenever the record of the machine changes. It
// reflects neither the lease nor the passage of time. It is nil if there is no such machine.
func (v *View) MachineMark(id string) any {
	if r, ok := v.machines.rows.Get(&record{key: id}); ok {
		return r
	}
	return nil
}

// MachinesMark returns a value that changes whenever the record of any machine changes.
func (v *View) MachinesMark() any { return v.machines.mark }

// MachineRoll returns a value that changes whenever a machine is created or deleted.
func (v *View) MachineRoll() any { return v.machines.roll }

// MachineCount returns the number of machines.
func (v *View) MachineCount() int { return v.machines.len() }

// MachineIDs returns the ids of all machines, in order. It decodes no machine, which would be
// slow for a large fleet.
func (v *View) MachineIDs() iter.Seq[string] { return v.machines.keys() }

// Machines returns the machines with an id above after, by id.
func (v *View) Machines(after string) iter.Seq[*holdfastv1.Machine] {
	return func(yield func(*holdfastv1.Machine) bool) {
		for m := range v.machines.ascend("", after) {
			if !yield(v.whole(m)) {
				return
			}
		}
	}
}
