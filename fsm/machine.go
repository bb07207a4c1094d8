package fsm

import (
	"iter"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/access"
	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/events"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

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
	r, ok := v.state.Machines.Row(machineID)
	if !ok {
		return "", false
	}
	if provider, ok = r.Facet("spec.provider"); !ok {
		provider, _ = r.Facet(schema.LabelPath + "provider")
	}
	return provider, true
}

func machineNotFound(id string) *Error {
	return refuse(NotFound, "MACHINE_NOT_FOUND", "machine %q not found", id).With("machine_id", id)
}

// checkOwned refuses a machine with a key that belongs to another one.
func checkOwned(t *core.Tx, m *holdfastv1.Machine) *Error {
	for _, key := range schema.Owned(m) {
		if other, ok := t.Machines.Lookup(schema.MachinesByOwned, key); ok && other.GetMachineId() != m.GetMachineId() {
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
func registerMachine(t *core.Tx, c *internalv1.RegisterMachine) (*holdfastv1.Machine, *Error) {
	in := c.GetMachine()
	if err := Invalid(NormalizeMachine(in)); err != nil {
		return nil, err
	}
	if in.GetMachineId() == "" {
		return nil, invalid("machine.machine_id", "is required")
	}
	old, exists := t.Machines.Get(in.GetMachineId())
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
		return replaceInventory(t, old, m)
	}
	m := &holdfastv1.Machine{MachineId: in.GetMachineId(), Labels: in.GetLabels(), Spec: in.GetSpec(), CreatedAt: t.Now,
		Status: &holdfastv1.MachineStatus{NodeState: holdfastv1.Node_PENDING}}
	if m.Spec == nil {
		m.Spec = &holdfastv1.MachineSpec{}
	}
	if err := checkOwned(t, m); err != nil {
		return nil, err
	}
	if err := access.CheckSecretPools(t, m); err != nil {
		return nil, err
	}
	phase := holdfastv1.MachineStatus_READY
	if in.GetStatus().GetPhase() == holdfastv1.MachineStatus_FACTORY_READY {
		phase = holdfastv1.MachineStatus_FACTORY_READY
	}
	movePhase(t, m, phase, change{by: "operator", comment: "registered"})
	putMachine(t, m)
	return whole(t.State, m), nil
}

// updateMachine replaces spec and labels, or the fields in the mask.
func updateMachine(t *core.Tx, c *internalv1.UpdateMachine) (*holdfastv1.Machine, *Error) {
	in := c.GetMachine()
	old, ok := t.Machines.Get(in.GetMachineId())
	if !ok {
		return nil, machineNotFound(in.GetMachineId())
	}
	m := proto.CloneOf(old)
	if err := mergeMachine(t, m, in, c.GetPaths()); err != nil {
		return nil, err
	}
	if err := Invalid(NormalizeMachine(m)); err != nil {
		return nil, err
	}
	return replaceInventory(t, old, m)
}

func replaceInventory(t *core.Tx, old, m *holdfastv1.Machine) (*holdfastv1.Machine, *Error) {
	if err := checkOwned(t, m); err != nil {
		return nil, err
	}
	if err := checkSteady(old, m); err != nil {
		return nil, err
	}
	if err := access.CheckSecretPools(t, m); err != nil {
		return nil, err
	}
	if changed := inventoryDiff(old, m); changed != "" {
		events.AddHistory(t, m, &holdfastv1.HistoryEntry{Facet: "inventory", To: changed, TriggeredBy: "operator"})
		putMachine(t, m)
	}
	return whole(t.State, m), nil
}

// setMachinePhase moves a machine by hand, along the transitions allowed to operators.
func setMachinePhase(t *core.Tx, c *internalv1.SetMachinePhase) (*holdfastv1.Machine, *Error) {
	m, ok := t.Machines.Get(c.GetMachineId())
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
		return whole(t.State, m), nil
	}
	if err := lifecycle.CheckPhase(m.GetMachineId(), from, to); err != nil {
		return nil, err
	}
	if to == holdfastv1.MachineStatus_READY || to == holdfastv1.MachineStatus_IN_SERVICE {
		setCondition(t, m, lifecycle.NeedsIntervention, false, "Cleared")
	}
	movePhase(t, m, to, change{by: "operator", comment: c.GetComment()})
	putMachine(t, m)
	return whole(t.State, m), nil
}

// retryBMC allows logins to the machine's BMC again. The provider reads the time from the
// machine.
func retryBMC(t *core.Tx, c *internalv1.RetryBmc) (*holdfastv1.Machine, *Error) {
	m, ok := t.Machines.Get(c.GetMachineId())
	if !ok {
		return nil, machineNotFound(c.GetMachineId())
	}
	m.Status.BmcRetryAt = t.Now
	events.AddHistory(t, m, &holdfastv1.HistoryEntry{Facet: "bmc", To: "logins allowed", TriggeredBy: "operator"})
	putMachine(t, m)
	return whole(t.State, m), nil
}

// deleteMachine deletes a machine. Its runs and its history stay, and its id can be
// registered again.
func deleteMachine(t *core.Tx, c *internalv1.DeleteMachine) *Error {
	m, ok := t.Machines.Get(c.GetMachineId())
	if !ok {
		return machineNotFound(c.GetMachineId())
	}
	run := m.GetStatus().GetActiveRunId()
	if console, ok := consoleOf(t.State, m.GetMachineId()); ok && run == "" {
		run = console.GetRunId()
	}
	if run != "" {
		return refuse(FailedPrecondition, ReasonActiveRun, "machine %q has the active run %s: cancel it or wait for it",
			m.GetMachineId(), run).
			With("run_id", run)
	}
	events.AddHistory(t, m, &holdfastv1.HistoryEntry{Facet: "inventory", To: "deleted", TriggeredBy: "operator"})
	access.RevokeAgents(t, m.GetMachineId())
	endMachineLeases(t, m.GetMachineId())
	forgetHost(t, m.GetMachineId())
	t.Hardware.Delete(m.GetMachineId())
	t.Installs.Delete(m.GetMachineId())
	t.Machines.Delete(m.GetMachineId())
	return nil
}

func putMachine(t *core.Tx, m *holdfastv1.Machine) {
	m.UpdatedAt, m.Revision = t.Now, t.Index
	t.Machines.Put(m)
}

// Machine returns a machine with its effective state.
func (v *View) Machine(id string) (*holdfastv1.Machine, bool) {
	m, ok := v.state.Machines.Get(id)
	if !ok {
		return nil, false
	}
	return whole(v.state, m), true
}

// MachineMark returns a value that changes whenever the record of the machine changes. It
// reflects neither the lease nor the passage of time. It is nil if there is no such machine.
func (v *View) MachineMark(id string) any {
	if r, ok := v.state.Machines.Row(id); ok {
		return r
	}
	return nil
}

// MachinesMark returns a value that changes whenever the record of any machine changes.
func (v *View) MachinesMark() any { return v.state.Machines.Mark() }

// MachineRoll returns a value that changes whenever a machine is created or deleted.
func (v *View) MachineRoll() any { return v.state.Machines.Roll() }

// MachineCount returns the number of machines.
func (v *View) MachineCount() int { return v.state.Machines.Len() }

// MachineIDs returns the ids of all machines, in order. It decodes no machine, which would be
// slow for a large fleet.
func (v *View) MachineIDs() iter.Seq[string] { return v.state.Machines.Keys() }

// Machines returns the machines with an id above after, by id.
func (v *View) Machines(after string) iter.Seq[*holdfastv1.Machine] {
	return func(yield func(*holdfastv1.Machine) bool) {
		for m := range v.state.Machines.Ascend("", after) {
			if !yield(whole(v.state, m)) {
				return
			}
		}
	}
}

// FindMachines returns the machines with an id above after that q selects, by id.
func (v *View) FindMachines(q table.Query, after string) iter.Seq[*holdfastv1.Machine] {
	return func(yield func(*holdfastv1.Machine) bool) {
		for m := range v.state.Machines.Find(q, after) {
			if !yield(whole(v.state, m)) {
				return
			}
		}
	}
}
