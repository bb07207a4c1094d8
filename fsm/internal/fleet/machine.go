package fleet

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/events"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/fsm/internal/shallow"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// MachineNotFound returns the refusal of a command that names an unknown machine.
func MachineNotFound(id string) *refusal.Error {
	return refusal.New(refusal.NotFound, "MACHINE_NOT_FOUND", "machine %q not found", id).With("machine_id", id)
}

// ActiveRun returns the refusal of a command that a machine's active run excludes.
func ActiveRun(machineID, runID string) *refusal.Error {
	return refusal.New(refusal.FailedPrecondition, refusal.ReasonActiveRun,
		"machine %q has the active run %s: cancel it or wait for it", machineID, runID).With("run_id", runID)
}

// Edit returns a copy of a machine whose status, node and agent may be changed: see
// shallow.Machine. To change more of it, use Edit of the table.
func Edit(t *core.Tx, id string) (*holdfastv1.Machine, bool) {
	m, ok := t.Machines.Get(id)
	if !ok {
		return nil, false
	}
	return shallow.Machine(m), true
}

// SetMachinePhase moves a machine by hand, along the transitions allowed to operators.
func SetMachinePhase(t *core.Tx, c *internalv1.SetMachinePhase) (*holdfastv1.Machine, *refusal.Error) {
	m, ok := Edit(t, c.GetMachineId())
	if !ok {
		return nil, MachineNotFound(c.GetMachineId())
	}
	from, to := m.GetStatus().GetPhase(), c.GetPhase()
	if run := m.GetStatus().GetActiveRunId(); run != "" {
		return nil, ActiveRun(m.GetMachineId(), run)
	}
	if from == to {
		return Whole(t.State, m), nil
	}
	if err := lifecycle.CheckPhase(m.GetMachineId(), from, to); err != nil {
		return nil, err
	}
	if to == holdfastv1.MachineStatus_READY || to == holdfastv1.MachineStatus_IN_SERVICE {
		SetCondition(t, m, lifecycle.NeedsIntervention, false, "Cleared")
		SetCondition(t, m, lifecycle.Canceled, false, "Cleared")
	}
	MovePhase(t, m, to, Change{By: "operator", Comment: c.GetComment()})
	PutMachine(t, m)
	return Whole(t.State, m), nil
}

// RetryBMC allows logins to the machine's BMC again. The provider reads the time from the
// machine.
func RetryBMC(t *core.Tx, c *internalv1.RetryBmc) (*holdfastv1.Machine, *refusal.Error) {
	m, ok := Edit(t, c.GetMachineId())
	if !ok {
		return nil, MachineNotFound(c.GetMachineId())
	}
	m.Status.BmcRetryAt = t.Now
	events.AddHistory(t, m, &holdfastv1.HistoryEntry{Facet: "bmc", To: "logins allowed", TriggeredBy: "operator"})
	PutMachine(t, m)
	return Whole(t.State, m), nil
}

// PutMachine stores a changed machine with its new revision. It must not change any more.
func PutMachine(t *core.Tx, m *holdfastv1.Machine) {
	m.UpdatedAt, m.Revision = t.Now, t.Index
	t.Machines.Put(m)
}
