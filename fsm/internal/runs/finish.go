package runs

import (
	"fmt"
	"strings"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/fleet"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	"github.com/holdfast-metal/holdfast/fsm/internal/sessions"
	"github.com/holdfast-metal/holdfast/fsm/internal/waves"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// FinishRun ends a run and frees its machine. From here on only the storage of its log
// changes.
func FinishRun(t *core.Tx, run *holdfastv1.Run, phase holdfastv1.Run_Phase, failure *holdfastv1.RunError) {
	run.Phase, run.FinishedAt, run.Error = phase, t.Now, failure
	run.Wait, run.Deadline, run.NextActionAt = nil, nil, nil
	msg := "run " + strings.ToLower(phase.String())
	if failure != nil {
		msg += ": " + failure.GetMessage()
	} else {
		run.CurrentStep = ""
	}
	if disks := diskEvidence(run); disks != "" {
		msg += "; " + disks
	}
	PutRun(t, run, msg)
	noteOutcome(t, run)
	waves.NoteEnd(t, run)
	if run.GetObserved() {
		sessions.EndInstallLeases(t, run.GetRunId())
	}
	sessions.CloseInstall(t, run)

	m, ok := fleet.Edit(t, run.GetMachineId())
	if !ok || m.GetStatus().GetActiveRunId() != run.GetRunId() {
		return
	}
	m.Status.ActiveRunId = ""
	c := fleet.Change{By: fleet.RunTrigger(t), Run: run.GetRunId(), Comment: msg}
	noteEvidence(t, m, run)
	switch {
	case leavesAlone(run):
		c.Node = nodeAfterReading(t, m, run)
		fleet.MovePhase(t, m, run.GetMachinePhaseBefore(), c)
	case phase == holdfastv1.Run_CANCELED && run.GetStartedAt() == nil:
		// Nothing was done: the machine is as it was.
		c.Node, c.Comment = nodeBefore(t, m, run), msg+"; it had not begun"
		fleet.MovePhase(t, m, run.GetMachinePhaseBefore(), c)
	case phase == holdfastv1.Run_SUCCEEDED:
		runSucceeded(t, m, run, c)
	case phase == holdfastv1.Run_FAILED && (run.GetPrincipal() == recoveryPrincipal || setsAside(t, run)):
		// Its failure does not affect the machine's host, so the phase stays. But the machine needs
		// an operator.
		fleet.Observe(t, m, &holdfastv1.Condition{
			Type: lifecycle.NeedsIntervention, Status: true, Reason: interventionReason(failure),
		})
		fleet.SetCondition(t, m, lifecycle.Canceled, false, "RunFailed")
		fleet.MovePhase(t, m, run.GetMachinePhaseBefore(), c)
	case phase == holdfastv1.Run_FAILED:
		fleet.SetCondition(t, m, lifecycle.Canceled, false, "RunFailed")
		fleet.Observe(t, m, &holdfastv1.Condition{
			Type: lifecycle.NeedsIntervention, Status: true, Reason: interventionReason(failure),
		})
		if c.Node = nodeAfterFailure(m, run); c.Node == holdfastv1.Node_INSTALL_FAILED {
			c.Metadata = map[string]string{"error": failure.GetMessage(), "attempt": fmt.Sprint(failure.GetAttempt())}
			fleet.NoteFailedInstall(m, failure.GetAttempt(), failure.GetMessage())
		}
		fleet.MovePhase(t, m, holdfastv1.MachineStatus_MAINTENANCE, c)
	default:
		noteCanceled(t, m, run)
		if setsAside(t, run) {
			fleet.MovePhase(t, m, run.GetMachinePhaseBefore(), c)
			break
		}
		if m.GetStatus().GetNodeState() == holdfastv1.Node_INSTALLING && installed(run) {
			c.Node = holdfastv1.Node_INSTALLED
		}
		fleet.MovePhase(t, m, holdfastv1.MachineStatus_MAINTENANCE, c)
	}
	fleet.PutMachine(t, m)
}

// recoveryPrincipal is the principal of the runs that the leader starts to recover a BMC.
const recoveryPrincipal = "recovery"
