package fsm

import (
	"iter"

	"google.golang.org/protobuf/proto"

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
	r, ok := v.machines.Row(machineID)
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
func (t *tx) checkOwned(m *holdfastv1.Machine) *Error {
	for _, key := range schema.Owned(m) {
		if other, ok := t.machines.Lookup(schema.MachinesByOwned, key); ok && other.GetMachineId() != m.GetMachineId() {
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
	old, exists := t.machines.Get(in.GetMachineId())
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
	old, ok := t.machines.Get(in.GetMachineId())
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
	m, ok := t.machines.Get(c.GetMachineId())
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
	m, ok := t.machines.Get(c.GetMachineId())
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
	m, ok := t.machines.Get(c.GetMachineId())
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
	t.hardware.Delete(m.GetMachineId())
	t.installs.Delete(m.GetMachineId())
	t.machines.Delete(m.GetMachineId())
	return nil
}

func (t *tx) putMachine(m *holdfastv1.Machine) {
	m.UpdatedAt, m.Revision = t.now, t.index
	t.machines.Put(m)
}

// Machine returns a machine with its effective state.
func (v *View) Machine(id string) (*holdfastv1.Machine, bool) {
	m, ok := v.machines.Get(id)
	if !ok {
		return nil, false
	}
	return v.whole(m), true
}

// MachineMark returns a value that changes whenever the record of the machine changes. It
// reflects neither the lease nor the passage of time. It is nil if there is no such machine.
func (v *View) MachineMark(id string) any {
	if r, ok := v.machines.Row(id); ok {
		return r
	}
	return nil
}

// MachinesMark returns a value that changes whenever the record of any machine changes.
func (v *View) MachinesMark() any { return v.machines.Mark() }

// MachineRoll returns a value that changes whenever a machine is created or deleted.
func (v *View) MachineRoll() any { return v.machines.Roll() }

// MachineCount returns the number of machines.
func (v *View) MachineCount() int { return v.machines.Len() }

// MachineIDs returns the ids of all machines, in order. It decodes no machine, which would be
// slow for a large fleet.
func (v *View) MachineIDs() iter.Seq[string] { return v.machines.Keys() }

// Machines returns the machines with an id above after, by id.
func (v *View) Machines(after string) iter.Seq[*holdfastv1.Machine] {
	return func(yield func(*holdfastv1.Machine) bool) {
		for m := range v.machines.Ascend("", after) {
			if !yield(v.whole(m)) {
				return
			}
		}
	}
}

// FindMachines returns the machines with an id above after that q selects, by id.
func (v *View) FindMachines(q table.Query, after string) iter.Seq[*holdfastv1.Machine] {
	return func(yield func(*holdfastv1.Machine) bool) {
		for m := range v.machines.Find(q, after) {
			if !yield(v.whole(m)) {
				return
			}
		}
	}
}

// Facets is a set of rows by their facets: rows with one value under a path, rows in all of
// several sets, or rows in any of them. Exactly one of the three is set. An empty Any has no
// rows.
type Facets = table.Facets

// Query narrows down the rows to check. It may include rows that do not match, and never
// excludes one that does.
type Query = table.Query

// MachineFacet reports whether path and value are a facet, so that all matching machines can
// be found by it. Paths are those of filters; the path of a condition is status.conditions
// and its type.
func MachineFacet(path, value string) bool { return schema.MachineFacet(path, value) }
