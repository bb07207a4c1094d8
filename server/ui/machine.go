package ui

import (
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/internal/display"
)

// planConsole is the plan that keeps a serial console open.
const planConsole = "plan/console"

// consoleBody is the output of a machine's serial console: the latest run that kept it
// open, and earlier ones.
type consoleBody struct {
	Machine *holdfastv1.Machine
	Run     *holdfastv1.Run // nil if it was never open
	Log     logBody
	Before  []*holdfastv1.Run
	MayOpen bool
}

// console shows the console's output. Input is possible with the command line only.
func (d *dashboard) console(v *visit) error {
	m, err := v.theMachine()
	if err != nil {
		return err
	}
	b := consoleBody{Machine: m, MayOpen: v.may("RunService/StartRun")}
	filter := display.Equals("machine_id", m.GetMachineId()) + " AND " + display.Equals("plan_id", planConsole)
	runs, err := v.read.runs.ListRuns(v.ctx, &holdfastv1.ListRunsRequest{Filter: filter, PageSize: 20})
	if err != nil {
		return err
	}
	if all := runs.GetRuns(); len(all) > 0 {
		b.Run, b.Before = all[0], all[1:]
		b.MayOpen = b.MayOpen && display.Ended(b.Run)
		if b.Log, err = d.theLog(v, b.Run, "console"); err != nil {
			return err
		}
	}
	return v.page("console", "Console of "+m.GetMachineId(), "machines", b, nil)
}
