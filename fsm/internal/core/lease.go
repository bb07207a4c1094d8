package core

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/lifetime"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/fsm/internal/shallow"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Leases (docs/decisions/0012-leases-have-a-clock-of-their-own.md). Each grant starts a new
// generation, and heartbeats of older generations are ignored. A lease that expired or was
// ended by its owner has expired_at set. The engine needs no other state of it.
//
// No lease expires early, even if leaders change and clocks are wrong. The leader advances the
// lease clock with its monotonic clock, and only while it could receive heartbeats.
// ExpireLeases carries that clock. It is refused for a lease whose newest recorded heartbeat
// is less than its TTL old. Wall clocks play no part: leaders may disagree about the time of
// day, or step it, without expiring a lease early or keeping one alive. last_seen is wall time
// (the FSM's, which never goes back) and only for display.

// Lease returns a recorded lease, alive or not.
func (s *State) Lease(kind internalv1.LeaseRef_Kind, id string) (*internalv1.Lease, bool) {
	return s.Leases.Get(schema.LeaseKey(&internalv1.LeaseRef{Kind: kind, Id: id}))
}

// GrantLease grants a lease, or its next generation. The grant counts as a heartbeat. Without
// a TTL it gets that of the previous generation, or that of its kind.
func (t *Tx) GrantLease(kind internalv1.LeaseRef_Kind, id string, ttlMS int64) *internalv1.Lease {
	l := &internalv1.Lease{Ref: &internalv1.LeaseRef{Kind: kind, Id: id, Generation: t.Meta.GetEndedGeneration() + 1},
		TtlMs: ttlMS}
	if old, ok := t.Lease(kind, id); ok {
		l.Ref.Generation = old.GetRef().GetGeneration() + 1
		if l.TtlMs <= 0 {
			l.TtlMs = old.GetTtlMs()
		}
		if !old.GetGone() {
			l.Metrics, l.AgentVersion = old.GetMetrics(), old.GetAgentVersion()
		}
	}
	if l.TtlMs <= 0 {
		l.TtlMs = lifetime.Of(kind).TTL.Milliseconds()
	}
	l.GrantedAt, l.LastSeen, l.SeenMs, l.Revision = t.Now, t.Now, t.Meta.GetLeaseClockMs(), t.Index
	t.Leases.Put(l)
	return l
}

// DropLease deletes a lease that its owner has ended. A later lease of this owner has a higher
// generation, because all new ones have.
func (t *Tx) DropLease(l *internalv1.Lease) {
	t.Meta.EndedGeneration = max(t.Meta.GetEndedGeneration(), l.GetRef().GetGeneration())
	t.Leases.Delete(schema.LeaseKey(l.GetRef()))
}

// EndLease ends a lease at the request of its owner, or because the owner was deleted.
func (t *Tx) EndLease(kind internalv1.LeaseRef_Kind, id string) {
	l, ok := t.Lease(kind, id)
	if !ok || l.GetGone() {
		return
	}
	l = shallow.Lease(l)
	l.Gone, l.ExpiredAt, l.Revision = true, t.Now, t.Index
	l.Metrics, l.AgentVersion = nil, ""
	t.Leases.Put(l)
}
