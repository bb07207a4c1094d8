package runs

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/fleet"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
)

// A console is a run, so that it is recorded. It does not affect the machine, and operators
// need it most during another run. It therefore runs besides the active run and does not
// block others (docs/decisions/0014).

// consoleFree refuses a second console of a machine. The error contains the run that has the
// console, so that the caller can attach to it.
func consoleFree(t *core.Tx, machineID string) *refusal.Error {
	run, ok := fleet.ConsoleOf(t.State, machineID)
	if !ok {
		return nil
	}
	return refusal.New(refusal.FailedPrecondition, refusal.ReasonConsoleOpen,
		"the console of machine %q is open in run %s: attach to it, or cancel it", machineID, run.GetRunId()).
		With("run_id", run.GetRunId()).With("machine_id", machineID)
}
