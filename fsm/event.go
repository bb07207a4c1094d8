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

// serviceNews returns the event of a changed service.
func serviceNews(s *holdfastv1.Service) *holdfastv1.Event {
	e := &holdfastv1.Event{Type: "service.inactive", Service: s}
	switch {
	case s.GetDeregistered():
		e.Type = "service.deregistered"
	case s.GetActive():
		e.Type = "service.active"
	}
	return e
}

// poolNews returns the event of a pool that has entered its status.
func poolNews(p *holdfastv1.Pool, reason string) *holdfastv1.Event {
	return &holdfastv1.Event{Type: "pool." + strings.ToLower(p.GetStatus().String()), Pool: &holdfastv1.Pool{
		PoolId: p.GetPoolId(), Provider: p.GetProvider(), Status: p.GetStatus(), StatusReason: reason,
		StatusChangedAt: p.GetStatusChangedAt(),
		Region:          p.GetRegion(), Endpoint: p.GetEndpoint(), NodeId: p.GetNodeId(),
	}}
}
