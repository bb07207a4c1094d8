package fsm

import (
	"strings"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// runNews returns the event of a run that has entered its phase, without the run's steps.
func runNews(r *holdfastv1.Run) *holdfastv1.Event {
	return &holdfastv1.Event{
		Type:      "run." + strings.ToLower(r.GetPhase().String()),
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
		},
	}
}
