package server

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/internal/request"
	"github.com/holdfast-metal/holdfast/server/internal/scope"
)

// ExplainMachine explains a machine's state: why it is there, what it waits for, and what
// an operator can do.
func (s *machineService) ExplainMachine(
	ctx context.Context, r *holdfastv1.ExplainMachineRequest,
) (*holdfastv1.MachineExplanation, error) {
	if err := request.Required("machine_id", r.GetMachineId()); err != nil {
		return nil, err
	}
	v, err := s.Node.View(ctx)
	if err != nil {
		return nil, err
	}
	m, ok := scope.Machine(ctx, v, r.GetMachineId())
	if !ok {
		return nil, request.NotFound("MACHINE_NOT_FOUND", "machine", r.GetMachineId())
	}
	e := &holdfastv1.MachineExplanation{
		MachineId:      m.GetMachineId(),
		EffectiveState: m.GetStatus().GetEffectiveState(),
		Banners:        m.GetStatus().GetBanners(),
		Since:          m.GetStatus().GetPhaseChangedAt(),
		Conditions:     m.GetStatus().GetConditions(),
	}
	run := runToExplain(v, m)
	switch {
	case run == nil:
		explainIdle(e, m, nil)
	case fsm.Ended(run):
		explainRun(e, run)
		explainIdle(e, m, run)
	default:
		explainRun(e, run)
		explainActive(e, run)
	}
	return e, nil
}

// runToExplain returns the active run of a machine, or its last one.
func runToExplain(v *fsm.View, m *holdfastv1.Machine) *holdfastv1.Run {
	if id := m.GetStatus().GetActiveRunId(); id != "" {
		if run, ok := v.Run(id); ok {
			return run
		}
	}
	for _, run := range v.MachineRuns(m.GetMachineId(), "") {
		if !run.GetBeside() { // a console does not affect the machine's state
			return run
		}
	}
	return nil
}

// explainRun copies the current step and the last error of a run into the explanation.
func explainRun(e *holdfastv1.MachineExplanation, run *holdfastv1.Run) {
	e.RunId, e.Step = run.GetRunId(), run.GetCurrentStep()
	for _, st := range run.GetSteps() {
		if n := len(st.GetAttempts()); st.GetName() == run.GetCurrentStep() && n > 0 {
			last := st.GetAttempts()[n-1]
			e.Attempt, e.LastError = last.GetNumber(), last.GetError()
			if e.GetLastError() == "" && n > 1 { // this attempt is running, so the previous one failed
				e.LastError = st.GetAttempts()[n-2].GetError()
			}
		}
	}
	if msg := run.GetError().GetMessage(); msg != "" {
		e.LastError = msg
	}
}

// runLabel returns the name of a run for use in a sentence.
func runLabel(run *holdfastv1.Run) string {
	what := run.GetType()
	if what == "" {
		what = run.GetPlanId()
	}
	return fmt.Sprintf("run %s (%s)", run.GetRunId(), what)
}

func explainActive(e *holdfastv1.MachineExplanation, run *holdfastv1.Run) {
	e.WaitingFor, e.Since = run.GetWaitingFor(), run.GetWaitingSince()
	e.Deadline, e.NextActionAt = run.GetDeadline(), run.GetNextActionAt()
	e.QueuePosition = run.GetQueuePosition()
	where := fmt.Sprintf("%s is at step %s", runLabel(run), run.GetCurrentStep())
	switch {
	case run.GetPhase() == holdfastv1.Run_PENDING:
		where = fmt.Sprintf("%s has not started, it is number %d in the queue,", runLabel(run), run.GetQueuePosition())
	case e.GetAttempt() > 0:
		where += fmt.Sprintf(", attempt %d of %d,", e.GetAttempt(), attempts(run))
	}
	if run.GetCancelRequestedAt() != nil {
		where += " is being canceled"
	}
	e.Summary = where
	if w := run.GetWaitingFor(); w != "" {
		e.Summary += " and waits for " + w
	}
	e.Suggestions = append(e.Suggestions, fmt.Sprintf("holdfast run logs %s -f", run.GetRunId()))
	if run.GetCancelRequestedAt() == nil {
		e.Suggestions = append(e.Suggestions, "holdfast run cancel "+run.GetRunId())
	}
}

// attempts returns the maximum number of attempts of the current step.
func attempts(run *holdfastv1.Run) int32 {
	for _, st := range run.GetSteps() {
		if st.GetName() == run.GetCurrentStep() {
			return st.GetMaxRetries() + 1
		}
	}
	return 1
}

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
			e.Suggestions = append(e.Suggestions, restartCommand(last))
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

// longParam is the maximum length of a parameter in a suggested command, in bytes. The
// command reads a longer one from the run.
const longParam = 256

// restartCommand returns the command that starts a run again with all of its parameters.
// Without one of them a step could use a default instead.
func restartCommand(run *holdfastv1.Run) string {
	cmd := "holdfast run start " + run.GetMachineId()
	if run.GetType() != "" {
		cmd += " --type " + run.GetType()
	}
	if run.GetPlanId() != fsm.DefaultPlanID(run.GetType()) {
		cmd += " --plan " + run.GetPlanId()
	}
	for _, name := range slices.Sorted(maps.Keys(run.GetParams())) {
		if value := run.GetParams()[name]; len(value) > longParam {
			cmd += fmt.Sprintf(` --param %s="$(holdfast run get %s -o json | jq -r '.params[%s]')"`,
				shellWord(name), run.GetRunId(), strconv.Quote(name))
		} else {
			cmd += " --param " + shellWord(name+"="+value)
		}
	}
	return cmd
}

// shellWord returns text as one word of a POSIX shell.
func shellWord(text string) string {
	if text != "" && strings.Trim(text, shellSafe) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

const shellSafe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-=./:,+@%"

// ending returns how a run ended, and why.
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
