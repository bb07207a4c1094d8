package fleet

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/access"
	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/events"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// DeleteMachine deletes a machine. Its runs and its history stay, and its id can be
// registered again.
func DeleteMachine(t *core.Tx, c *internalv1.DeleteMachine) *refusal.Error {
	m, ok := t.Machines.Get(c.GetMachineId())
	if !ok {
		return MachineNotFound(c.GetMachineId())
	}
	run := m.GetStatus().GetActiveRunId()
	if console, ok := ConsoleOf(t.State, m.GetMachineId()); ok && run == "" {
		run = console.GetRunId()
	}
	if run != "" {
		return ActiveRun(m.GetMachineId(), run)
	}
	events.AddHistory(t, m, &holdfastv1.HistoryEntry{
		Facet: "inventory", To: schema.MachineDeleted, TriggeredBy: "operator",
	})
	access.RevokeAgents(t, m.GetMachineId())
	endMachineLeases(t, m.GetMachineId())
	ForgetHost(t, m.GetMachineId())
	t.Hardware.Delete(m.GetMachineId())
	t.Installs.Delete(m.GetMachineId())
	t.Machines.Delete(m.GetMachineId())
	recheckOthers(t, m)
	return nil
}

// ConsoleOf returns the run that keeps the console of a machine open.
func ConsoleOf(s *core.State, machineID string) (*holdfastv1.Run, bool) {
	return s.Runs.Lookup(schema.RunsConcurrent, machineID)
}

// endMachineLeases ends both kinds of lease that a machine can have.
func endMachineLeases(t *core.Tx, id string) {
	t.EndLease(internalv1.LeaseRef_MACHINE, id)
	t.EndLease(internalv1.LeaseRef_PENDING_MACHINE, id)
}
