package fsm

import (
	"fmt"
	"slices"

	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// An installer that Holdfast has not started may report too. Its install is a run like any
// other, so that PROVISIONING has a run, a log and a reason: type REPAVE, with one step that
// is observed and not executed. Reports open and close its attempts. The executor ignores the
// run, and the executor's commands for it are refused.

// observedStep is the step of an observed run.
const observedStep = "install"

// observedRun returns the active observed run of a machine, or nil. It returns an error if
// the executor drives the active run.
func (t *tx) observedRun(m *holdfastv1.Machine) (*holdfastv1.Run, *Error) {
	id := m.GetStatus().GetActiveRunId()
	if id == "" {
		return nil, nil
	}
	run, ok := t.runs.Get(id)
	if !ok || !run.GetObserved() {
		return nil, refuse(FailedPrecondition, ReasonActiveRun,
			"machine %q has the active run %s: cancel it or wait for it", m.GetMachineId(), id).
			With("run_id", id).With("machine_id", m.GetMachineId())
	}
	return run, nil
}

// checkObservable refuses the id of a new run that is invalid or in use.
func (t *tx) checkObservable(m *holdfastv1.Machine, runID string) *Error {
	if !lex.ValidName(runID, 64) {
		return invalid("run_id", "%q is not 1 to 64 letters, digits, '.', '_', '-' or ':'", runID)
	}
	if _, taken := t.byRequest(m.GetMachineId(), observedRequest(runID)); taken || t.runs.Has(runID) {
		return refuse(Aborted, ReasonIDTaken, "generated run id %q is in use", runID)
	}
	return nil
}

// observedRequest returns the request id of an observed run, which no caller has requested.
func observedRequest(runID string) string { return "report:" + runID }

// beginObserved begins the run of a reported install. It returns the machine as stored.
func (t *tx) beginObserved(m *holdfastv1.Machine, runID, why string) *holdfastv1.Machine {
	run := &holdfastv1.Run{
		RunId: runID, MachineId: m.GetMachineId(), RequestId: observedRequest(runID), Type: "REPAVE",
		Observed: true, Phase: holdfastv1.Run_RUNNING,
		CurrentStep: observedStep, CreatedAt: t.now, StartedAt: t.now, Principal: t.cmd.GetPrincipal(),
		WaitingFor: "the installer's reports", WaitingSince: t.now, MachinePhaseBefore: m.GetStatus().GetPhase(),
		Steps: []*holdfastv1.StepStatus{
			{
				Name:       observedStep,
				Kind:       "repave",
				State:      holdfastv1.StepStatus_RUNNING,
				StartedAt:  t.now,
				MaxRetries: lifecycle.MaxInstallAttempts - 1,
				Attempts:   []*holdfastv1.Attempt{t.observedAttempt(1)},
			},
		},
	}
	if plan, ok := t.plans.Get(m.GetNode().GetWorkflowId()); ok {
		run.PlanId = plan.GetPlanId()
		if !plan.GetReferenced() {
			plan.Referenced = true
			t.plans.Put(plan)
		}
	}
	run.Steps[0].TimeoutSeconds = t.quietSeconds(run)
	t.heardInstall(run)
	m.Status.ActiveRunId = runID
	t.movePhase(m, holdfastv1.MachineStatus_PROVISIONING, change{
		by: t.runTrigger(), run: runID, comment: why, node: holdfastv1.Node_INSTALLING,
	})
	t.noteInstall(m, "started", runID)
	t.putMachine(m)
	t.sayObserved(run, why)
	t.putRun(run, why)
	return m
}

func (t *tx) observedAttempt(number int32) *holdfastv1.Attempt {
	return &holdfastv1.Attempt{Number: number, StartedAt: t.now, Epochs: []uint64{t.meta.GetEpoch()}}
}

// noteInstall records the last reported status of an installation. A step that installs waits
// for it.
func (t *tx) noteInstall(m *holdfastv1.Machine, status, runID string) {
	n := m.GetNode()
	n.InstallStatus, n.InstallStatusAt, n.InstallRunId = status, t.now, runID
}

// sayObserved appends a line to the run's log. The caller stores the run.
func (t *tx) sayObserved(run *holdfastv1.Run, line string) {
	chunk := &holdfastv1.LogChunk{
		Ts: t.now, Stream: "system", Step: observedStep, Attempt: int32(len(run.GetSteps()[0].GetAttempts())),
		Data: []byte(line + "\n"),
	}
	_ = t.appendLog(run, &internalv1.LogAppend{
		RunId: run.GetRunId(), Offset: OwnLogBytes(run), Chunks: []*holdfastv1.LogChunk{chunk},
	})
}

// observedProgress records a stage of the install in the run's log.
func (t *tx) observedProgress(run *holdfastv1.Run, line string) {
	t.sayObserved(run, line)
	run.Revision = t.index
	t.runs.Put(run) // no event: a log tail follows log_bytes
}

// observedDone ends the run after the installer has finished. It returns the machine as
// stored.
func (t *tx) observedDone(m *holdfastv1.Machine, run *holdfastv1.Run, why string) *holdfastv1.Machine {
	m.GetNode().InstallProgress = 100
	t.noteInstall(m, "complete", run.GetRunId())
	t.putMachine(m)
	step := run.GetSteps()[0]
	a := lifecycle.LastAttempt(step)
	a.Outcome, a.FinishedAt = holdfastv1.Attempt_SUCCEEDED, t.now
	step.Message = why
	t.sayObserved(run, why)
	t.stepSucceeded(run, step)
	return t.again(m)
}

// observedStrike counts a failed install. After the first failures the node stays installing,
// and the installer retries.
func (t *tx) observedStrike(m *holdfastv1.Machine, run *holdfastv1.Run, why string) *holdfastv1.Machine {
	step := run.GetSteps()[0]
	a := lifecycle.LastAttempt(step)
	if a.GetNumber() > step.GetMaxRetries() {
		return t.observedFailed(m, run, why)
	}
	t.putMachine(m)
	a.Outcome, a.FinishedAt, a.Error = holdfastv1.Attempt_FAILED, t.now, why
	step.Message = why
	msg := fmt.Sprintf("install attempt %d of %d failed: %s", a.GetNumber(), lifecycle.MaxInstallAttempts, why)
	t.sayObserved(run, msg)
	step.Attempts = append(step.GetAttempts(), t.observedAttempt(a.GetNumber()+1))
	step.RetryCount = a.GetNumber()
	run.WaitingFor = fmt.Sprintf("the installer to try again: %d of %d attempts failed",
		a.GetNumber(), lifecycle.MaxInstallAttempts)
	run.WaitingSince = t.now
	t.putRun(run, msg)
	return t.again(m)
}

// observedFailed ends the run because the installer or an operator reports a failure. It
// returns the machine as stored.
func (t *tx) observedFailed(m *holdfastv1.Machine, run *holdfastv1.Run, why string) *holdfastv1.Machine {
	return t.failObserved(m, run, &holdfastv1.RunError{Reason: "InstallFailed", Message: why})
}

// failObserved ends the run as failed. It returns the machine as stored.
func (t *tx) failObserved(
	m *holdfastv1.Machine, run *holdfastv1.Run, failure *holdfastv1.RunError,
) *holdfastv1.Machine {
	why := failure.GetMessage()
	m.GetNode().LastInstallError = why
	t.noteInstall(m, "failed", run.GetRunId())
	t.putMachine(m)
	step := run.GetSteps()[0]
	a := lifecycle.LastAttempt(step)
	a.Outcome, a.FinishedAt, a.Error, a.ErrorClass = holdfastv1.Attempt_FAILED, t.now, why, failure.GetErrorClass()
	step.Message = why
	t.sayObserved(run, fmt.Sprintf("install attempt %d failed: %s", a.GetNumber(), why))
	t.endStep(step, holdfastv1.StepStatus_FAILED)
	failure.Step, failure.Attempt = observedStep, a.GetNumber()
	t.finishRun(run, holdfastv1.Run_FAILED, failure)
	return t.again(m)
}

// observedCanceled ends the run because its node was moved elsewhere. It returns the machine
// as stored.
func (t *tx) observedCanceled(m *holdfastv1.Machine, run *holdfastv1.Run, why string) *holdfastv1.Machine {
	t.putMachine(m)
	t.cancelObserved(run, why)
	return t.again(m)
}

// cancelObserved cancels an observed run directly, because no executor drives it.
func (t *tx) cancelObserved(run *holdfastv1.Run, why string) {
	if run.GetCancelRequestedAt() == nil {
		run.CancelRequestedAt, run.CancelReason = t.now, why
	}
	failure := canceledError(run)
	step := run.GetSteps()[0]
	if a := lifecycle.LastAttempt(step); lifecycle.Open(a) {
		a.Outcome, a.FinishedAt, a.Error = holdfastv1.Attempt_CANCELED, t.now, failure.GetMessage()
	}
	step.Message = failure.GetMessage()
	t.sayObserved(run, failure.GetMessage())
	t.endStep(step, holdfastv1.StepStatus_FAILED)
	t.finishRun(run, holdfastv1.Run_CANCELED, failure)
}

// again returns the stored machine after a run has changed it.
func (t *tx) again(m *holdfastv1.Machine) *holdfastv1.Machine {
	stored, _ := t.machines.Get(m.GetMachineId())
	return stored
}

// installRun returns the run of an installation's report: the active one.
func (t *tx) installRun(m *holdfastv1.Machine) *holdfastv1.Run {
	run, _ := t.runs.Get(m.GetStatus().GetActiveRunId())
	return run
}

// installReported applies an installation status to the node, according to the table of the
// node state machine (docs/concepts.md). A status without an entry for the node's state
// changes nothing. If the executor drives the run, the report is evidence for its step, which
// decides.
func (t *tx) installReported(m *holdfastv1.Machine, r *holdfastv1.ReportNodeRequest, runID string) *holdfastv1.Machine {
	n, status := m.GetNode(), r.GetInstallationStatus()
	if !t.sessionReported(m, r) {
		return m
	}
	run := t.installRun(m)
	if status == "started" && m.GetStatus().GetNodeState() == holdfastv1.Node_PENDING && run == nil {
		return t.beginObserved(m, runID, "the installer has started")
	}
	if m.GetStatus().GetNodeState() != holdfastv1.Node_INSTALLING ||
		!slices.Contains([]string{"started", "progress", "complete", "failed"}, status) {
		return m
	}
	observed := run.GetObserved()
	if observed {
		t.heardInstall(run)
		t.runs.Put(run) // no event: the run itself is unchanged
	}
	if !observed || status != "started" { // a repeated start has no entry in the table
		t.noteInstall(m, status, run.GetRunId())
	}
	if r.GetHasProgress() && status == "progress" {
		n.InstallProgress = r.GetInstallationProgress()
	}
	switch why := lex.First(lex.Clip(r.GetInstallationError(), maxNote), "the installer gave no reason"); {
	case status == "failed":
		n.InstallAttempts++
		n.LastInstallError = why
		if observed {
			return t.observedStrike(m, run, why)
		}
	case status == "complete" && observed:
		return t.observedDone(m, run, "the installer is done")
	case status == "complete":
		n.InstallAttempts, n.LastInstallError, n.InstallProgress = 0, "", 100
	case status == "progress" && observed && r.GetHasProgress():
		t.observedProgress(run, fmt.Sprintf("install: %d %%", r.GetInstallationProgress()))
	}
	return m
}

// noteFailedInstall records a failed install in the node's record, as reports of an installer
// do. The caller stores the machine.
func noteFailedInstall(m *holdfastv1.Machine, attempt int32, why string) {
	if m.Node == nil {
		m.Node = &holdfastv1.NodeRecord{}
	}
	m.Node.InstallAttempts = max(m.GetNode().GetInstallAttempts(), attempt)
	m.Node.LastInstallError = lex.Clip(lex.First(why, m.GetNode().GetLastInstallError()), maxNote)
}
