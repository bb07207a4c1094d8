package fleet

import (
	"cmp"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// explainIdle explains a machine without an active run. Last is its last run, or nil.
func explainIdle(e *holdfastv1.MachineExplanation, m *holdfastv1.Machine, last *holdfastv1.Run, now time.Time) {
	id := m.GetMachineId()
	if last != nil {
		e.Suggestions = append(e.Suggestions, "holdfast run logs "+last.GetRunId())
	}
	switch m.GetStatus().GetPhase() {
	case holdfastv1.MachineStatus_RETIRED:
		e.Suggestions = append(e.Suggestions, "holdfast machine delete "+id)
	case holdfastv1.MachineStatus_RMA:
		e.Wait = awaitsOperator(m, "")
		e.Suggestions = append(e.Suggestions,
			"holdfast machine set-phase "+id+" READY", "holdfast machine set-phase "+id+" RETIRED")
	case holdfastv1.MachineStatus_MAINTENANCE:
		e.Wait = awaitsOperator(m, "")
		switch {
		case last.GetPhase() == holdfastv1.Run_FAILED && last.GetObserved():
			e.Suggestions = append(e.Suggestions, "holdfast node state "+id+" pending --force")
		case last.GetPhase() == holdfastv1.Run_FAILED, canceled(last):
			e.Suggestions = append(e.Suggestions, "holdfast run retry "+last.GetRunId())
		}
		if !fsm.DiskInDoubt(m) { // it must not be offered to others with half an image
			e.Suggestions = append(e.Suggestions, "holdfast machine set-phase "+id+" READY")
		}
	case holdfastv1.MachineStatus_FACTORY_READY:
		if m.GetStatus().GetNodeState() == holdfastv1.Node_DISCOVERED {
			e.Wait = awaitsOperator(m, "approve")
			e.Suggestions = append(e.Suggestions, "holdfast node approve "+id+" --workflow plan/repave-join")
		}
	default:
		explainFree(e, m, last, now)
	}
	e.Suggestions = append(e.Suggestions, "holdfast machine history "+id)
	e.Summary = idleSummary(m, last, cmp.Or(e.GetWait(), awaitsOperator(m, "")), now)
}

// awaitsOperator returns the wait of a machine for an operator, to decide or for an action.
func awaitsOperator(m *holdfastv1.Machine, action string) *holdfastv1.Wait {
	return worded(&holdfastv1.Wait{Kind: holdfastv1.Wait_PERSON, Subject: "operator", Value: action,
		Since: m.GetStatus().GetPhaseChangedAt()})
}

// explainFree adds the next steps for a machine that operators and runs may use.
func explainFree(e *holdfastv1.MachineExplanation, m *holdfastv1.Machine, last *holdfastv1.Run, now time.Time) {
	id, s := m.GetMachineId(), m.GetStatus()
	plan := fsm.ApprovedPlan(m)
	setAside := last.GetPlanId() == "plan/drain" || last.GetPlanId() == "plan/uncordon"
	unfinished := last.GetPhase() == holdfastv1.Run_FAILED || canceled(last)
	switch {
	case setAside && unfinished && s.GetNeedsAttention():
		e.Suggestions = append(e.Suggestions, "holdfast run retry "+last.GetRunId(), "holdfast machine uncordon "+id)
	case drained(s, now):
		e.Suggestions = append(e.Suggestions, "holdfast machine uncordon "+id)
	case s.GetNeedsAttention() && s.GetPower() == holdfastv1.PowerState_OFF:
		e.Suggestions = append(e.Suggestions, "holdfast machine power on "+id,
			"holdfast machine set-phase "+id+" MAINTENANCE")
	case refusesAccount(s):
		ref := cmp.Or(m.GetSpec().GetBmcCredentialsRef(), "NAME")
		e.Suggestions = append(e.Suggestions, "holdfast secret put "+ref+" --type bmc",
			"holdfast machine bmc-retry "+id, "holdfast machine set-phase "+id+" MAINTENANCE")
	case s.GetNeedsAttention() && s.GetIssues()[0].GetType() == "IdentityConflict":
		e.Suggestions = append(e.Suggestions, "holdfast machine edit "+id)
	case s.GetNeedsAttention():
		e.Suggestions = append(e.Suggestions, "holdfast machine set-phase "+id+" MAINTENANCE")
	case plan != "":
		e.Wait = worded(&holdfastv1.Wait{Kind: holdfastv1.Wait_BOOT, Subject: "machine", Value: "network",
			Since: s.GetPhaseChangedAt()})
		e.Suggestions = append(e.Suggestions, "holdfast run start "+id+" --type REPAVE --plan "+plan)
	}
}

// idleSummary returns the cause of a machine's state, or its wait, in a few words.
func idleSummary(m *holdfastv1.Machine, last *holdfastv1.Run, w *holdfastv1.Wait, now time.Time) string {
	s := m.GetStatus()
	waits := "waits for " + w.GetSentence()
	switch {
	case s.GetPhase() == holdfastv1.MachineStatus_RETIRED:
		return "retired, no operation is allowed"
	case s.GetPhase() == holdfastv1.MachineStatus_RMA:
		return "to be returned, " + waits
	case last.GetPhase() == holdfastv1.Run_FAILED && hasIssue(s, "NeedsIntervention"):
		return failure(m, last)
	case hasIssue(s, "Canceled") && last.GetPhase() == holdfastv1.Run_CANCELED:
		return runName(last) + " was " + describe.IssueText(issue(s, "Canceled")) + ", " + waits
	case s.GetNeedsAttention() && s.GetPower() == holdfastv1.PowerState_OFF:
		return describe.PoweredOff(s, now)
	case s.GetNeedsAttention():
		return describe.IssueText(s.GetIssues()[0])
	case s.GetPhase() == holdfastv1.MachineStatus_MAINTENANCE:
		return waits
	case drained(s, now):
		return describe.Drained(s, now)
	case s.GetPhase() == holdfastv1.MachineStatus_FACTORY_READY && s.GetNodeState() == holdfastv1.Node_DISCOVERED:
		return "discovered, " + waits
	case fsm.ApprovedPlan(m) != "":
		return "approved, " + fsm.ApprovedPlan(m) + " starts when it boots from the network"
	}
	return describe.Idle(m)
}

// refusesAccount reports whether the most urgent issue of a machine is that its BMC refuses the
// account.
func refusesAccount(s *holdfastv1.MachineStatus) bool {
	i := s.GetIssues()
	return len(i) > 0 && strings.HasPrefix(i[0].GetType(), "BMC") && i[0].GetReason() == "AuthFailed"
}

// issue returns the issue of a type, or nil.
func issue(s *holdfastv1.MachineStatus, kind string) *holdfastv1.Issue {
	for _, i := range s.GetIssues() {
		if i.GetType() == kind {
			return i
		}
	}
	return nil
}

func hasIssue(s *holdfastv1.MachineStatus, kind string) bool { return issue(s, kind) != nil }

// canceled reports whether a run was canceled after it had begun. Holdfast does not execute an
// observed run, so it cannot repeat it.
func canceled(run *holdfastv1.Run) bool {
	return run.GetPhase() == holdfastv1.Run_CANCELED && run.GetStartedAt() != nil && !run.GetObserved()
}

// drained reports whether the node of a machine in service is drained: it takes no pods.
func drained(s *holdfastv1.MachineStatus, now time.Time) bool { return describe.Drained(s, now) != "" }

// mostCause is the number of characters of an error in a summary.
const mostCause = 60

// failure returns the step and the cause of a failed run: "repave failed at set-netboot: BMC
// answered 500, 4 attempts". The names of the step and the machine that errors begin with are
// left out.
func failure(m *holdfastv1.Machine, run *holdfastv1.Run) string {
	text := runName(run) + " failed"
	if step := run.GetError().GetStep(); step != "" {
		text += " at " + step
	}
	cause := run.GetError().GetMessage()
	if _, after, ok := strings.Cut(cause, " of "+m.GetMachineId()+": "); ok {
		cause = after
	}
	if cause != "" {
		text += ": " + describe.Cut(cause, mostCause)
	}
	if n := run.GetError().GetAttempt(); n > 1 {
		text += ", " + describe.Number(n, "attempt")
	}
	return text
}
