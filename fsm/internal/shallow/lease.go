package shallow

import "github.com/holdfast-metal/holdfast/proto/internalv1"

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
