package shallow

import (
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Lease returns a copy of a lease. Its own fields may be changed; its reference and its
// metrics are shared.
func Lease(l *internalv1.Lease) *internalv1.Lease {
	return &internalv1.Lease{
		Ref:          l.Ref,
		TtlMs:        l.TtlMs,
		GrantedAt:    l.GrantedAt,
		LastSeen:     l.LastSeen,
		ExpiredAt:    l.ExpiredAt,
		SeenMs:       l.SeenMs,
		Revision:     l.Revision,
		Metrics:      l.Metrics,
		AgentVersion: l.AgentVersion,
		Ready:        l.Ready,
		Gone:         l.Gone,
	}
}

// Plan returns a copy of a plan. Its own fields may be changed; its steps, outcomes and ramps
// are shared.
func Plan(p *holdfastv1.Plan) *holdfastv1.Plan {
	return &holdfastv1.Plan{
		PlanId:      p.PlanId,
		DisplayName: p.DisplayName,
		Steps:       p.Steps,
		BuiltIn:     p.BuiltIn,
		Referenced:  p.Referenced,
		CreatedAt:   p.CreatedAt,
		Brake:       p.Brake,
		Recent:      p.Recent,
		Ramps:       p.Ramps,
		MaxActive:   p.MaxActive,
	}
}
