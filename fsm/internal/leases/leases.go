package leases

import (
	"iter"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/fleet"
	"github.com/holdfast-metal/holdfast/fsm/internal/installs"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/limits"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/fsm/internal/registry"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/fsm/internal/shallow"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Leases that their owner has ended are kept for a while, so that the lease engine reads the end.
const (
	goneFor   = time.Hour
	goneBatch = 64 // deleted by one command, at most
)

// advanceLeaseClock advances the lease clock, never back, and deletes leases that were ended
// long ago.
func advanceLeaseClock(t *core.Tx, ms int64) {
	t.Meta.LeaseClockMs = max(t.Meta.GetLeaseClockMs(), ms)
	var stale []*internalv1.Lease
	for _, l := range t.Leases.Scan(schema.LeasesGone, "", "") {
		if len(stale) == goneBatch || t.Now.AsTime().Sub(l.GetExpiredAt().AsTime()) < goneFor {
			break
		}
		stale = append(stale, l)
	}
	for _, l := range stale {
		t.DropLease(l)
	}
}

// CheckpointLeases records heartbeats. The owner of a lease becomes ready with its first one.
// Heartbeats of ended leases and of older generations are skipped, so that they do not fail
// the others.
func CheckpointLeases(t *core.Tx, c *internalv1.CheckpointLeases) *refusal.Error {
	pools := 0
	for _, seen := range c.GetLeases() {
		if seen.GetRenewal().GetLease().GetKind() == internalv1.LeaseRef_POOL {
			pools++
		}
	}
	if pools > limits.PoolReports {
		return refusal.InvalidField("leases", "has %d leases of pools, at most %d are allowed", pools, limits.PoolReports)
	}
	advanceLeaseClock(t, c.GetClockMs())
	for _, seen := range c.GetLeases() {
		if l, fresh := aliveLease(t, seen.GetRenewal()); l != nil {
			record(t, l, seen, fresh)
		}
	}
	return nil
}

// aliveLease returns the lease that a heartbeat renews, and whether it was granted just now.
// A heartbeat can revive some leases without a registration: see ReviveMachine, RevivePool and
// ReviveService.
func aliveLease(t *core.Tx, r *internalv1.Renewal) (l *internalv1.Lease, fresh bool) {
	ref := r.GetLease()
	l, ok := t.Lease(ref.GetKind(), ref.GetId())
	alive := ok && l.GetExpiredAt() == nil
	if g := ref.GetGeneration(); g != 0 && (!alive || g != l.GetRef().GetGeneration()) {
		return nil, false // the generation has ended since the heartbeat was sent
	}
	if alive && ref.GetKind() != internalv1.LeaseRef_PENDING_MACHINE {
		return l, false
	}
	switch ref.GetKind() {
	case internalv1.LeaseRef_MACHINE, internalv1.LeaseRef_PENDING_MACHINE:
		return fleet.ReviveMachine(t, ref.GetId()), true
	case internalv1.LeaseRef_POOL:
		return registry.RevivePool(t, ref.GetId()), true
	case internalv1.LeaseRef_SERVICE:
		return registry.ReviveService(t, ref.GetId()), true
	}
	return nil, false
}

// record records one heartbeat. fresh is whether it has granted the lease.
func record(t *core.Tx, l *internalv1.Lease, seen *internalv1.SeenLease, fresh bool) {
	r := seen.GetRenewal()
	l = shallow.Lease(l)
	l.SeenMs = max(l.GetSeenMs(), min(seen.GetSeenMs(), t.Meta.GetLeaseClockMs()))
	age := time.Duration(max(0, seen.GetAgeMs())) * time.Millisecond
	if at := t.Now.AsTime().Add(-age); !fresh && at.After(l.GetLastSeen().AsTime()) {
		l.LastSeen = timestamppb.New(at)
	}
	switch l.GetRef().GetKind() {
	case internalv1.LeaseRef_MACHINE:
		if r.GetMetrics() != nil {
			l.Metrics = r.GetMetrics()
		}
		if v := r.GetAgentVersion(); v != "" {
			l.AgentVersion = lex.Clip(v, fleet.MaxAgentText)
		}
		if !l.GetReady() {
			fleet.AgentReady(t, l.GetRef().GetId())
		}
	case internalv1.LeaseRef_POOL:
		registry.PoolSeen(t, l.GetRef().GetId(), r.GetPool())
	case internalv1.LeaseRef_SERVICE:
		if !l.GetReady() || r.GetState() != nil {
			registry.ServiceSeen(t, l.GetRef().GetId(), r.GetState())
		}
	}
	l.Ready = true
	t.Leases.Put(l)
}

// ExpireLeases expires leases. Each is checked against the recorded state: a lease of another
// generation, one that has ended and one whose TTL has not passed are skipped.
func ExpireLeases(t *core.Tx, c *internalv1.ExpireLeases) *refusal.Error {
	advanceLeaseClock(t, c.GetClockMs())
	for _, ref := range c.GetLeases() {
		l, ok := t.Lease(ref.GetKind(), ref.GetId())
		if !ok || l.GetExpiredAt() != nil || l.GetRef().GetGeneration() != ref.GetGeneration() ||
			c.GetClockMs()-l.GetSeenMs() < l.GetTtlMs() {
			continue
		}
		l = shallow.Lease(l)
		l.ExpiredAt, l.Revision, l.Ready = t.Now, t.Index, false
		t.Leases.Put(l)
		switch ref.GetKind() {
		case internalv1.LeaseRef_MACHINE, internalv1.LeaseRef_PENDING_MACHINE:
			fleet.AgentExpired(t, l)
		case internalv1.LeaseRef_POOL:
			registry.PoolMissing(t, ref.GetId())
		case internalv1.LeaseRef_SERVICE:
			registry.ServiceMissing(t, ref.GetId())
		case internalv1.LeaseRef_INSTALL:
			installs.InstallLeaseExpired(t, l)
		}
	}
	return nil
}

// LeaseClock returns the recorded lease clock, in milliseconds.
func (v *View) LeaseClock() int64 { return v.s.Meta.GetLeaseClockMs() }

// Lease returns a recorded lease, alive or not.
func (v *View) Lease(kind internalv1.LeaseRef_Kind, id string) (*internalv1.Lease, bool) {
	return v.s.Lease(kind, id)
}

// Leases returns all leases, by kind and id.
func (v *View) Leases() iter.Seq[*internalv1.Lease] { return v.s.Leases.Ascend("", "") }

// LeasesChangedSince returns the leases that were granted, expired or ended after a revision,
// oldest change first.
func (v *View) LeasesChangedSince(revision uint64) iter.Seq[*internalv1.Lease] {
	return table.Values(v.s.Leases.Scan(schema.LeasesByRevision, "", schema.Ordered(revision)))
}
