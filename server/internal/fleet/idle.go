package fleet

import (
	"fmt"
	"strings"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// explainIdle explains a machine without an active run. Last is its last run, or nil.
func explainIdle(e *holdfastv1.MachineExplanation, m *holdfastv1.Machine, last *holdfastv1.Run) {
	id := m.GetMachineId()
	troubled := len(m.GetStatus().GetBanners()) > 0
	said := "no run is active"
	if last != nil {
		said += fmt.Sprintf("; its last one, %s, %s", runLabel(last), ending(last))
		e.Suggestions = append(e.Suggestions, "holdfast run logs "+last.GetRunId())
	}
	switch m.GetStatus().GetPhase() {
	case holdfastv1.MachineStatus_RETIRED:
		said = "it is out of the inventory for good, no operation is allowed; " + said
		e.Suggestions = append(e.Suggestions, "holdfast machine delete "+id)
	case holdfastv1.MachineStatus_RMA:
		said = "it is out for return or replacement until an operator moves it; " + said
		e.Suggestions = append(e.Suggestions,
			"holdfast machine set-phase "+id+" READY", "holdfast machine set-phase "+id+" RETIRED")
	case holdfastv1.MachineStatus_MAINTENANCE:
		said = "it stays out of service until an operator moves it or a run succeeds; " + said
		e.WaitingFor = "an operator"
		switch {
		case last.GetPhase() == holdfastv1.Run_FAILED && last.GetObserved():
			e.Suggestions = append(e.Suggestions, "holdfast node state "+id+" pending --force")
		case last.GetPhase() == holdfastv1.Run_FAILED:
			e.Suggestions = append(e.Suggestions, "holdfast run retry "+last.GetRunId())
		}
		e.Suggestions = append(e.Suggestions, "holdfast machine set-phase "+id+" READY")
	case holdfastv1.MachineStatus_FACTORY_READY:
		if m.GetStatus().GetNodeState() == holdfastv1.Node_DISCOVERED {
			said = "it was discovered and awaits approval; " + said
			e.WaitingFor = "an operator"
			e.Suggestions = append(e.Suggestions, "holdfast node approve "+id+" --workflow plan/repave-join")
		}
	default:
		if plan := fsm.ApprovedPlan(m); plan != "" && !troubled {
			said = "it is approved: its workflow " + plan + " starts when it boots from the network; " + said
			e.WaitingFor = "the machine to boot from the network"
			e.Suggestions = append(e.Suggestions, "holdfast run start "+id+" --type REPAVE --plan "+plan)
			break
		}
		if troubled {
			e.Suggestions = append(e.Suggestions, "holdfast machine set-phase "+id+" MAINTENANCE")
		} else {
			said = "nothing is to be waited for: " + said
		}
	}
	if troubled {
		said = "needs attention (" + strings.Join(m.GetStatus().GetBanners(), "; ") + "); " + said
	}
	e.Summary = said
	e.Suggestions = append(e.Suggestions, "holdfast machine history "+id)
}

// ending returns the outcome of a run and its cause, for use in a sentence.
func ending(run *holdfastv1.Run) string {
	text := "has " + strings.ToLower(run.GetPhase().String())
	switch run.GetPhase() {
	case holdfastv1.Run_CANCELED:
		text = "was canceled"
	case holdfastv1.Run_FAILED:
		if step := run.GetError().GetStep(); step != "" {
			text += " at step " + step
		}
	}
	if msg := run.GetError().GetMessage(); msg != "" && msg != "canceled" {
		text += ": " + msg
	}
	return text
}
