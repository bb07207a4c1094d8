package fsm

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// A console is a run, so that it is recorded. It does not affect the machine, and operators
// need it most during another run. It therefore runs besides the active run and does not
// block others (docs/decisions/0014).

// kindConsole is the kind of a console's step.
const kindConsole = "console"

// consoleOf returns the run that keeps the console of a machine open.
func consoleOf(s *core.State, machineID string) (*holdfastv1.Run, bool) {
	return s.Runs.Lookup(schema.RunsNonExclusive, machineID)
}

// consoleFree refuses a second console of a machine. The error contains the run that has the
// console, so that the caller can attach to it.
func consoleFree(t *core.Tx, machineID string) *Error {
	run, ok := consoleOf(t.State, machineID)
	if !ok {
		return nil
	}
	return refuse(FailedPrecondition, ReasonConsoleOpen,
		"the console of machine %q is open in run %s: attach to it, or cancel it", machineID, run.GetRunId()).
		With("run_id", run.GetRunId()).With("machine_id", machineID)
}
