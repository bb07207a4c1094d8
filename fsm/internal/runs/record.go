package runs

import (
	"slices"
	"strings"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/events"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// NotFound returns the refusal of a command that names an unknown run.
func NotFound(id string) *refusal.Error {
	return refusal.New(refusal.NotFound, "RUN_NOT_FOUND", "run %q not found", id).With("run_id", id)
}

// runFinished returns the refusal of a command that would change a run that has ended.
func runFinished(run *holdfastv1.Run) *refusal.Error {
	return refusal.New(refusal.FailedPrecondition, refusal.ReasonRunFinished, "run %s has already %s",
		run.GetRunId(), run.GetPhase())
}

// PutRun stores a run and adds the event of its transition. The run must not change any more.
func PutRun(t *core.Tx, run *holdfastv1.Run, message string) {
	run.Revision, run.QueuePosition = t.Index, 0
	had, _ := t.Runs.Get(run.GetRunId())
	t.Runs.Put(run)
	events.AddRunEvent(t, run, message)
	if had.GetPhase() != run.GetPhase() {
		events.AddEvent(t, runEvent(run))
	}
}

// runEvent returns the event of a run that has entered its phase, without the run's steps.
func runEvent(r *holdfastv1.Run) *holdfastv1.Event {
	return &holdfastv1.Event{
		Type:      eventType(r.GetPhase()),
		MachineId: r.GetMachineId(),
		Run: &holdfastv1.Run{
			RunId:        r.GetRunId(),
			MachineId:    r.GetMachineId(),
			RequestId:    r.GetRequestId(),
			Type:         r.GetType(),
			PlanId:       r.GetPlanId(),
			Phase:        r.GetPhase(),
			CurrentStep:  r.GetCurrentStep(),
			CreatedAt:    r.GetCreatedAt(),
			StartedAt:    r.GetStartedAt(),
			FinishedAt:   r.GetFinishedAt(),
			Error:        r.GetError(),
			CancelReason: r.GetCancelReason(),
			Principal:    r.GetPrincipal(),
			Revision:     r.GetRevision(),
			Pool:         r.GetPool(),
		},
	}
}

// eventType returns the type of the event of a run that enters a phase: run.pending.
func eventType(p holdfastv1.Run_Phase) string {
	switch p {
	case holdfastv1.Run_PENDING:
		return "run.pending"
	case holdfastv1.Run_RUNNING:
		return "run.running"
	}
	return "run." + strings.ToLower(p.String())
}

// ActiveRuns returns all runs that have not ended.
func ActiveRuns(s *core.State) []*holdfastv1.Run {
	return slices.Collect(table.Values(s.Runs.Scan(schema.RunsActive, "", "")))
}
