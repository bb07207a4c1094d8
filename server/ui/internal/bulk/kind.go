package bulk

import (
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Most is the maximum number of machines of one request.
const Most = 500

// The actions. Their keys are the ends of the paths below /ui/bulk/.
const (
	PowerOn     = "runs/power-on"
	PowerOff    = "runs/power-off"
	PowerCycle  = "runs/power-cycle"
	StartPlan   = "runs/plan"
	SetPhase    = "phase"
	SetLabel    = "labels/set"
	RemoveLabel = "labels/remove"
)

// The methods that do the actions.
const (
	methodRun    = "RunService/StartRun"
	methodPhase  = "MachineService/SetMachinePhase"
	methodUpdate = "MachineService/UpdateMachine"
)

// Kind is an action.
type Kind struct {
	Key    string // the path below /ui/bulk/
	Title  string // followed by the number of machines
	Button string // in the list of machines
	Method string // the method that does it, without the package
	plan   string // the plan of its runs, if it has only one
}

// Kinds returns all actions in the order of their buttons.
func Kinds() []Kind {
	return []Kind{
		{PowerOn, "Power on", "Power on", methodRun, "plan/power-on"},
		{PowerOff, "Power off", "Power off", methodRun, "plan/power-off"},
		{PowerCycle, "Power cycle", "Power cycle", methodRun, "plan/power-cycle"},
		{StartPlan, "Start a plan on", "Start a plan", methodRun, ""},
		{SetPhase, "Set the phase of", "Set phase", methodPhase, ""},
		{SetLabel, "Set a label on", "Set label", methodUpdate, ""},
		{RemoveLabel, "Remove a label from", "Remove label", methodUpdate, ""},
	}
}

// Phases returns the phases that an operator can set.
func Phases() []holdfastv1.MachineStatus_Phase {
	var all []holdfastv1.MachineStatus_Phase
	for p := holdfastv1.MachineStatus_READY; p <= holdfastv1.MachineStatus_RETIRED; p++ {
		if p != holdfastv1.MachineStatus_PROVISIONING { // set by runs only
			all = append(all, p)
		}
	}
	return all
}
