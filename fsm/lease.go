package fsm

import (
	"iter"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Leases (docs/decisions/0012-leases-have-a-clock-of-their-own.md). Each grant starts a new
// generation, and heartbeats of older generations are ignored. A lease that expired or was
// ended by its owner has expired_at set. The engine needs no other state of it.
//
// No lease expires early, whatever leaders and clocks do. The leader advances the lease clock
// with its monotonic clock, and only while it could receive heartbeats. ExpireLeases carries
// that clock. It is refused for a lease whose newest recorded heartbeat is less than its TTL
// old. Wall clocks play no part: leaders may disagree about the time of day, or step it,
// without expiring a lease early or keeping one alive. last_seen is wall time (the FSM's,
// which never goes back) and only for display.

// The default duration of leases.
const (
	machineTTL = 5 * time.Minute // of the machine registration API
	poolTTL    = 30 * time.Second
	serviceTTL = time.Minute
	// Twice the time after which a node counts as stalled.
	installTTL = 2 * time.Hour
)

// Limits on leases that their owner has ended. They are kept for a while, so that the engine
// learns of the end and generations keep rising.
const (
	goneFor   = time.Hour
	goneBatch = 64 // deleted by one command, at most
)

func (s *state) lease(kind internalv1.LeaseRef_Kind, id string) (*internalv1.Lease, bool) {
	return s.leases.Get(schema.LeaseKey(&internalv1.LeaseRef{Kind: kind, Id: id}))
}

// grantLease grants a lease, or its next generation. The grant counts as a heartbeat. Without
// a TTL it gets that of the previous generation, or the default of its kind.
func (t *tx) grantLease(kind internalv1.LeaseRef_Kind, id string, ttlMS int64) *internalv1.Lease {
	l := &internalv1.Lease{Ref: &internalv1.LeaseRef{Kind: kind, Id: id, Generation: 1}, TtlMs: ttlMS}
	if old, ok := t.lease(kind, id); ok {
		l.Ref.Generation = old.GetRef().GetGeneration() + 1
		if l.TtlMs <= 0 {
			l.TtlMs = old.GetTtlMs()
		}
		if !old.GetGone() {
			l.Metrics, l.AgentVersion = old.GetMetrics(), old.GetAgentVersion()
		}
	}
	if l.TtlMs <= 0 {
		l.TtlMs = defaultTTL(kind).Milliseconds()
	}
	l.GrantedAt, l.LastSeen, l.SeenMs, l.Revision = t.now, t.now, t.meta.GetLeaseClockMs(), t.index
	t.leases.Put(l)
	return l
}

func defaultTTL(kind internalv1.LeaseRef_Kind) time.Duration {
	switch kind {
	case internalv1.LeaseRef_POOL:
		return poolTTL
	case internalv1.LeaseRef_SERVICE:
		return serviceTTL
	case internalv1.LeaseRef_PENDING_MACHINE:
		return time.Hour
	case internalv1.LeaseRef_INSTALL:
		return installTTL
	}
	return machineTTL
}

// endLease ends a lease at the request of its owner, or because the owner was deleted.
func (t *tx) endLease(kind internalv1.LeaseRef_Kind, id string) {
	l, ok := t.lease(kind, id)
	if !ok || l.GetGone() {
		return
	}
	l.Gone, l.ExpiredAt, l.Revision = true, t.now, t.index
	l.Metrics, l.AgentVersion = nil, ""
	t.leases.Put(l)
}

// endMachineLeases ends both kinds of lease that a machine can have.
func (t *tx) endMachineLeases(id string) {
	t.endLease(internalv1.LeaseRef_MACHINE, id)
	t.endLease(internalv1.LeaseRef_PENDING_MACHINE, id)
}

// advanceLeaseClock advances the lease clock, never back, and deletes leases that were ended
// long ago.
func (t *tx) advanceLeaseClock(ms int64) {
	t.meta.LeaseClockMs = max(t.meta.GetLeaseClockMs(), ms)
	var stale []*internalv1.Lease
	for _, l := range t.leases.Scan(schema.LeasesGone, "", "") {
		if len(stale) == goneBatch || t.now.AsTime().Sub(l.GetExpiredAt().AsTime()) < goneFor {
			break
		}
		stale = append(stale, l)
	}
	for _, l := range stale {
		t.leases.Delete(schema.LeaseKey(l.GetRef()))
	}
}

// checkpointLeases records heartbeats. The owner of a lease becomes ready with its first one.
// Heartbeats of ended leases and of older generations are skipped, so that they do not fail
// the others.
func (t *tx) checkpointLeases(c *internalv1.CheckpointLeases) *Error {
	t.advanceLeaseClock(c.GetClockMs())
	for _, seen := range c.GetLeases() {
		if l, fresh := t.aliveLease(seen.GetRenewal()); l != nil {
			t.see(l, seen, fresh)
		}
	}
	return nil
}

// aliveLease returns the lease that a heartbeat renews, and whether it was granted just now.
// A heartbeat can revive some leases without a registration: see the owners' files.
func (t *tx) aliveLease(r *internalv1.Renewal) (l *internalv1.Lease, fresh bool) {
	ref := r.GetLease()
	l, ok := t.lease(ref.GetKind(), ref.GetId())
	alive := ok && l.GetExpiredAt() == nil
	if g := ref.GetGeneration(); g != 0 && (!alive || g != l.GetRef().GetGeneration()) {
		return nil, false // the generation has ended since the heartbeat was sent
	}
	if alive && ref.GetKind() != internalv1.LeaseRef_PENDING_MACHINE {
		return l, false
	}
	switch ref.GetKind() {
	case internalv1.LeaseRef_MACHINE, internalv1.LeaseRef_PENDING_MACHINE:
		return t.reviveMachine(ref.GetId()), true
	case internalv1.LeaseRef_POOL:
		return t.revivePool(ref.GetId()), true
	case internalv1.LeaseRef_SERVICE:
		return t.reviveService(ref.GetId()), true
	}
	return nil, false
}

// see records one heartbeat.
func (t *tx) see(l *internalv1.Lease, seen *internalv1.SeenLease, fresh bool) {
	r := seen.GetRenewal()
	l.SeenMs = max(l.GetSeenMs(), min(seen.GetSeenMs(), t.meta.GetLeaseClockMs()))
	age := time.Duration(max(0, seen.GetAgeMs())) * time.Millisecond
	if at := t.now.AsTime().Add(-age); !fresh && at.After(l.GetLastSeen().AsTime()) {
		l.LastSeen = timestamppb.New(at)
	}
	switch l.GetRef().GetKind() {
	case internalv1.LeaseRef_MACHINE:
		if r.GetMetrics() != nil {
			l.Metrics = r.GetMetrics()
		}
		if v := r.GetAgentVersion(); v != "" {
			l.AgentVersion = lex.Clip(v, maxAgentText)
		}
		if !l.GetReady() {
			t.agentReady(l.GetRef().GetId())
		}
	case internalv1.LeaseRef_POOL:
		t.poolSeen(l.GetRef().GetId(), r.GetPool())
	case internalv1.LeaseRef_SERVICE:
		if !l.GetReady() || r.GetState() != nil {
			t.serviceSeen(l.GetRef().GetId(), r.GetState())
		}
	}
	l.Ready = true
	t.leases.Put(l)
}

// expireLeases expires leases. Each is checked against the recorded state: a lease of another
// generation, one that has ended and one whose TTL has not passed are skipped.
func (t *tx) expireLeases(c *internalv1.ExpireLeases) *Error {
	t.advanceLeaseClock(c.GetClockMs())
	for _, ref := range c.GetLeases() {
		l, ok := t.lease(ref.GetKind(), ref.GetId())
		if !ok || l.GetExpiredAt() != nil || l.GetRef().GetGeneration() != ref.GetGeneration() ||
			c.GetClockMs()-l.GetSeenMs() < l.GetTtlMs() {
			continue
		}
		l.ExpiredAt, l.Revision, l.Ready = t.now, t.index, false
		t.leases.Put(l)
		switch ref.GetKind() {
		case internalv1.LeaseRef_MACHINE, internalv1.LeaseRef_PENDING_MACHINE:
			t.agentExpired(l)
		case internalv1.LeaseRef_POOL:
			t.poolMissing(ref.GetId())
		case internalv1.LeaseRef_SERVICE:
			t.serviceMissing(ref.GetId())
		case internalv1.LeaseRef_INSTALL:
			t.installOver(l)
		}
	}
	return nil
}

// LeaseClock returns the recorded lease clock, in milliseconds.
func (v *View) LeaseClock() int64 { return v.meta.GetLeaseClockMs() }

// Lease returns a recorded lease, alive or not.
func (v *View) Lease(kind internalv1.LeaseRef_Kind, id string) (*internalv1.Lease, bool) {
	return v.lease(kind, id)
}

// Leases returns all leases, by kind and id.
func (v *View) Leases() iter.Seq[*internalv1.Lease] { return v.leases.Ascend("", "") }

// LeasesChangedSince returns the leases that were granted, expired or ended after a revision,
// oldest change first.
func (v *View) LeasesChangedSince(revision uint64) iter.Seq[*internalv1.Lease] {
	return func(yield func(*internalv1.Lease) bool) {
		for _, l := range v.leases.Scan(schema.LeasesByRevision, "", schema.Ordered(revision)) {
			if !yield(l) {
				return
			}
		}
	}
}
