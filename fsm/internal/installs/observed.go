package installs

import (
	"fmt"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/fleet"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/fsm/internal/runs"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// observedRun returns a copy of the active observed run of a machine, or nil. It returns an
// error if the executor drives the active run.
func observedRun(t *core.Tx, m *holdfastv1.Machine) (*holdfastv1.Run, *refusal.Error) {
	id := m.GetStatus().GetActiveRunId()
	if id == "" {
		return nil, nil
	}
	run, ok := t.Runs.Edit(id)
	if !ok || !run.GetObserved() {
		return nil, fleet.ActiveRun(m.GetMachineId(), id).With("machine_id", m.GetMachineId())
	}
	return run, nil
}

// checkObservable refuses the id of a new run that is invalid or in use.
func checkObservable(t *core.Tx, m *holdfastv1.Machine, runID string) *refusal.Error {
	if !lex.ValidName(runID, 64) {
		return refusal.InvalidField("run_id", "%q is not 1 to 64 letters, digits, '.', '_', '-' or ':'", runID)
	}
	if _, taken := runs.ByRequest(t.State, m.GetMachineId(), observedRequest(runID)); taken || t.Runs.Has(runID) {
		return refusal.New(refusal.Aborted, refusal.ReasonIDTaken, "generated run id %q is in use", runID)
	}
	return nil
}

// observedRequest returns the request id of an observed run, which no caller has requested.
func observedRequest(runID string) string { return "report:" + runID }

// beginObserved begins the run of a reported install. It returns a copy of the stored machine.
func beginObserved(t *core.Tx, m *holdfastv1.Machine, runID, why string) *holdfastv1.Machine {
	run := &holdfastv1.Run{
		RunId: runID, MachineId: m.GetMachineId(), RequestId: observedRequest(runID), Type: "REPAVE",
		Observed: true, Phase: holdfastv1.Run_RUNNING, Pool: m.GetSpec().GetPool(),
		CurrentStep: runs.ObservedStep, CreatedAt: t.Now, StartedAt: t.Now, Principal: t.Command.GetPrincipal(),
		MachinePhaseBefore: m.GetStatus().GetPhase(),
		Steps: []*holdfastv1.StepStatus{
			{
				Name:       runs.ObservedStep,
				Kind:       "repave",
				State:      holdfastv1.StepStatus_RUNNING,
				StartedAt:  t.Now,
				MaxRetries: lifecycle.MaxInstallAttempts - 1,
				Attempts:   []*holdfastv1.Attempt{observedAttempt(t, 1)},
			},
		},
	}
	if plan, ok := t.Plans.Edit(m.GetNode().GetWorkflowId()); ok {
		run.PlanId = plan.GetPlanId()
		if !plan.GetReferenced() {
			plan.Referenced = true
			t.Plans.Put(plan)
		}
	}
	runs.Await(t, run, &holdfastv1.Wait{Kind: holdfastv1.Wait_INSTALLER, Value: "reports"})
	run.Steps[0].TimeoutSeconds = silenceLimit(t, run)
	renewInstall(t, run)
	m.Status.ActiveRunId = runID
	fleet.MovePhase(t, m, holdfastv1.MachineStatus_PROVISIONING, fleet.Change{
		By: fleet.RunTrigger(t), Run: runID, Comment: why, Node: holdfastv1.Node_INSTALLING,
	})
	noteInstall(t, m, "started", runID)
	fleet.PutMachine(t, m)
	runs.LogObserved(t, run, why)
	runs.PutRun(t, run, why)
	return stored(t, m)
}

func observedAttempt(t *core.Tx, number int32) *holdfastv1.Attempt {
	return &holdfastv1.Attempt{Number: number, StartedAt: t.Now, Epochs: []uint64{t.Meta.GetEpoch()}}
}

// noteInstall records the last reported status of an installation. A step that installs waits
// for it.
func noteInstall(t *core.Tx, m *holdfastv1.Machine, status, runID string) {
	n := m.GetNode()
	n.InstallStatus, n.InstallStatusAt, n.InstallRunId = status, t.Now, runID
}

// observedProgress records a stage of the install in the run's log.
func observedProgress(t *core.Tx, run *holdfastv1.Run, line string) {
	runs.LogObserved(t, run, line)
	run.Revision = t.Index
	t.Runs.Put(run) // no event: a log tail follows log_bytes
}

// observedDone ends the run after the installer has finished. It returns a copy of the stored
// machine.
func observedDone(t *core.Tx, m *holdfastv1.Machine, run *holdfastv1.Run, why string) *holdfastv1.Machine {
	m.GetNode().InstallProgress = 100
	noteInstall(t, m, "complete", run.GetRunId())
	fleet.PutMachine(t, m)
	step := run.GetSteps()[0]
	a := lifecycle.LastAttempt(step)
	a.Outcome, a.FinishedAt = holdfastv1.Attempt_SUCCEEDED, t.Now
	step.Message = why
	runs.LogObserved(t, run, why)
	runs.StepSucceeded(t, run, step)
	return stored(t, m)
}

// observedRetry records a failed install. The node stays installing, and the installer retries,
// until the last attempt has failed.
func observedRetry(t *core.Tx, m *holdfastv1.Machine, run *holdfastv1.Run, why string) *holdfastv1.Machine {
	step := run.GetSteps()[0]
	a := lifecycle.LastAttempt(step)
	if a.GetNumber() > step.GetMaxRetries() {
		return observedFailed(t, m, run, why)
	}
	fleet.PutMachine(t, m)
	a.Outcome, a.FinishedAt, a.Error = holdfastv1.Attempt_FAILED, t.Now, why
	step.Message = why
	msg := fmt.Sprintf("install attempt %d of %d failed: %s", a.GetNumber(), lifecycle.MaxInstallAttempts, why)
	runs.LogObserved(t, run, msg)
	step.Attempts = append(step.GetAttempts(), observedAttempt(t, a.GetNumber()+1))
	step.RetryCount = a.GetNumber()
	runs.Await(t, run, &holdfastv1.Wait{Kind: holdfastv1.Wait_INSTALLER, Value: "retry", Number: a.GetNumber()})
	runs.PutRun(t, run, msg)
	return stored(t, m)
}

// observedFailed ends the run because the installer or an operator reports a failure. It
// returns a copy of the stored machine.
func observedFailed(t *core.Tx, m *holdfastv1.Machine, run *holdfastv1.Run, why string) *holdfastv1.Machine {
	return failObserved(t, m, run, &holdfastv1.RunError{Reason: "InstallFailed", Message: why})
}

// failObserved ends the run as failed. It returns a copy of the stored machine.
func failObserved(
	t *core.Tx, m *holdfastv1.Machine, run *holdfastv1.Run, failure *holdfastv1.RunError,
) *holdfastv1.Machine {
	why := failure.GetMessage()
	m.GetNode().LastInstallError = why
	noteInstall(t, m, "failed", run.GetRunId())
	fleet.PutMachine(t, m)
	step := run.GetSteps()[0]
	a := lifecycle.LastAttempt(step)
	a.Outcome, a.FinishedAt, a.Error, a.ErrorClass = holdfastv1.Attempt_FAILED, t.Now, why, failure.GetErrorClass()
	step.Message = why
	runs.LogObserved(t, run, fmt.Sprintf("install attempt %d failed: %s", a.GetNumber(), why))
	runs.EndStep(t, step, holdfastv1.StepStatus_FAILED)
	failure.Step, failure.Attempt = runs.ObservedStep, a.GetNumber()
	runs.FinishRun(t, run, holdfastv1.Run_FAILED, failure)
	return stored(t, m)
}

// observedCanceled ends the run because its node was moved elsewhere. It returns a copy of the
// stored machine.
func observedCanceled(t *core.Tx, m *holdfastv1.Machine, run *holdfastv1.Run, why string) *holdfastv1.Machine {
	fleet.PutMachine(t, m)
	runs.CancelObserved(t, run, why)
	return stored(t, m)
}

// stored returns a copy of the stored machine after a run has changed it.
func stored(t *core.Tx, m *holdfastv1.Machine) *holdfastv1.Machine {
	m, _ = t.Machines.Edit(m.GetMachineId())
	return m
}
