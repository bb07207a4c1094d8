package ui

import (
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// planConsole is the plan whose runs keep a serial console open.
const planConsole = "plan/console"

// consoleBody is what the serial console of a machine has shown: the newest run that kept it open,
// and those before.
type consoleBody struct {
	Machine *holdfastv1.Machine
	Run     *holdfastv1.Run // nil: it was never open
	Log     logBody
	Before  []*holdfastv1.Run
	MayOpen bool
}

// console shows the console. What is typed goes in by the command line: a page is for looking.
func (d *dashboard) console(v *visit) error {
	m, err := v.theMachine()
	if err != nil {
		return err
	}
	b := consoleBody{Machine: m, MayOpen: v.rules.may(v.who, "RunService/StartRun")}
	runs, err := v.read.runs.ListRuns(v.ctx, &holdfastv1.ListRunsRequest{Filter: equals("machine_id", m.GetMachineId()) + " AND " + equals("plan_id", planConsole), PageSize: 20})
	if err != nil {
		return err
	}
	if all := runs.GetRuns(); len(all) > 0 {
		b.Run, b.Before = all[0], all[1:]
		b.MayOpen = b.MayOpen && ended(b.Run)
		if b.Log, err = d.theLog(v, b.Run, "console"); err != nil {
			return err
		}
	}
	return v.page("console", "Console of "+m.GetMachineId(), "machines", b, nil)
}
