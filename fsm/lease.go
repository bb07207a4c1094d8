package fsm

import (
	"iter"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Leases (docs/decisions/0012-leases-have-a-clock-of-their-own.md). A grant is a new generation;
// what is said of an older one is void. Whoever is over, by expiry or because its owner ended it,
// has expired_at: that is all the engine needs to know of it.
//
// No lease expires early, whatever leaders and clocks do. The leader counts the lease clock with
// its monotonic clock, and only while it could hear; ExpireLeases brings that count, and it is
// refused for a lease whose newest heartbeat on record is less than its TTL before it. So wall
// clocks do not come into it: leaders may disagree about the time of day, and step it, and neither
// makes a lease expire early nor keeps one alive. last_seen is wall time (the FSM's, which never
// goes back) and is for people alone.

// The indexes of leases.
const (
	leasesByRevision = iota // all: what the engine follows
	leasesGone              // those that their owner has ended, by when
	leaseIndexes            // how many there are
)

// How long leases are when nobody says.
const (
	machineTTL = 5 * time.Minute // machine registration §States
	poolTTL    = 30 * time.Second
	serviceTTL = time.Minute
	installTTL = 2 * time.Hour // twice as long as a node takes to count as stalled
)

// A lease that its owner has ended is kept so long, so that the engine learns of it and generations
// go on rising.
const (
	goneFor   = time.Hour
	goneBatch = 64 // forgotten by one command at most
)

func leaseSchema() *schema[*internalv1.Lease] {
	return &schema[*internalv1.Lease]{
		kind:    internalv1.SnapshotRecord_LEASES,
		key:     func(l *internalv1.Lease) string { return leaseKey(l.GetRef()) },
		indexes: leaseIndexes,
		index: func(l *internalv1.Lease, add func(int, string)) {
			add(leasesByRevision, ordered(l.GetRevision()))
			if l.GetGone() {
				add(leasesGone, orderedTime(l.GetExpiredAt(), ""))
			}
		},
		glance: glanceLease,
	}
}

func leaseKey(r *internalv1.LeaseRef) string { return r.GetKind().String() + "/" + r.GetId() }

func (s *state) lease(kind internalv1.LeaseRef_Kind, id string) (*internalv1.Lease, bool) {
	return s.leases.get(leaseKey(&internalv1.LeaseRef{Kind: kind, Id: id}))
}

// grantLease begins a lease, or its next generation. That counts as a heartbeat. Without a TTL it
// gets that of the generation before, or the default of its kind.
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
	t.leases.put(l)
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

// endLease ends a lease because its owner says so, or is no more.
func (t *tx) endLease(kind internalv1.LeaseRef_Kind, id string) {
	l, ok := t.lease(kind, id)
	if !ok || l.GetGone() {
		return
	}
	l.Gone, l.ExpiredAt, l.Revision = true, t.now, t.index
	l.Metrics, l.AgentVersion = nil, ""
	t.leases.put(l)
}

// endMachineLeases ends both kinds of lease that a machine can have.
func (t *tx) endMachineLeases(id string) {
	t.endLease(internalv1.LeaseRef_MACHINE, id)
	t.endLease(internalv1.LeaseRef_PENDING_MACHINE, id)
}

// advanceLeaseClock moves the lease clock on, never back, and forgets what was ended long ago.
func (t *tx) advanceLeaseClock(ms int64) {
	t.meta.LeaseClockMs = max(t.meta.GetLeaseClockMs(), ms)
	var stale []*internalv1.Lease
	for _, l := range t.leases.scan(leasesGone, "", "") {
		if len(stale) == goneBatch || t.now.AsTime().Sub(l.GetExpiredAt().AsTime()) < goneFor {
			break
		}
		stale = append(stale, l)
	}
	for _, l := range stale {
		t.leases.delete(leaseKey(l.GetRef()))
	}
}

// checkpointLeases puts heartbeats on record. The owners of those that come for the first time
// become ready. What is said of a lease that is over, or of an older generation, is passed over:
// the others must not suffer for it.
func (t *tx) checkpointLeases(c *internalv1.CheckpointLeases) *Error {
	t.advanceLeaseClock(c.GetClockMs())
	for _, seen := range c.GetLeases() {
		if l, fresh := t.aliveLease(seen.GetRenewal()); l != nil {
			t.see(l, seen, fresh)
		}
	}
	return nil
}

// aliveLease returns the lease that a heartbeat is for, and whether it was granted just now. A
// heartbeat brings back what may come back without registering: see the owners' files.
func (t *tx) aliveLease(r *internalv1.Renewal) (l *internalv1.Lease, fresh bool) {
	ref := r.GetLease()
	l, ok := t.lease(ref.GetKind(), ref.GetId())
	alive := ok && l.GetExpiredAt() == nil
	if g := ref.GetGeneration(); g != 0 && (!alive || g != l.GetRef().GetGeneration()) {
		return nil, false // it was alive when it was said, and is not any more
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

// see puts one heartbeat on record.
func (t *tx) see(l *internalv1.Lease, seen *internalv1.SeenLease, fresh bool) {
	r := seen.GetRenewal()
	l.SeenMs = max(l.GetSeenMs(), min(seen.GetSeenMs(), t.meta.GetLeaseClockMs()))
	if at := t.now.AsTime().Add(-time.Duration(max(0, seen.GetAgeMs())) * time.Millisecond); !fresh && at.After(l.GetLastSeen().AsTime()) {
		l.LastSeen = timestamppb.New(at)
	}
	switch l.GetRef().GetKind() {
	case internalv1.LeaseRef_MACHINE:
		if r.GetMetrics() != nil {
			l.Metrics = r.GetMetrics()
		}
		if v := r.GetAgentVersion(); v != "" {
			l.AgentVersion = clip(v, maxAgentText)
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
	t.leases.put(l)
}

// expireLeases declares losses. Each is held against what is recorded by now: a lease of another
// generation, one that is over already and one whose time is not up are passed over.
func (t *tx) expireLeases(c *internalv1.ExpireLeases) *Error {
	t.advanceLeaseClock(c.GetClockMs())
	for _, ref := range c.GetLeases() {
		l, ok := t.lease(ref.GetKind(), ref.GetId())
		if !ok || l.GetExpiredAt() != nil || l.GetRef().GetGeneration() != ref.GetGeneration() || c.GetClockMs()-l.GetSeenMs() < l.GetTtlMs() {
			continue
		}
		l.ExpiredAt, l.Revision, l.Ready = t.now, t.index, false
		t.leases.put(l)
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

// LeaseClock returns the newest value of the lease clock on record, in milliseconds.
func (v *View) LeaseClock() int64 { return v.meta.GetLeaseClockMs() }

// Lease returns a lease as it is recorded, alive or not.
func (v *View) Lease(kind internalv1.LeaseRef_Kind, id string) (*internalv1.Lease, bool) {
	return v.lease(kind, id)
}

// Leases returns all leases, by kind and id.
func (v *View) Leases() iter.Seq[*internalv1.Lease] { return v.leases.ascend("", "") }

// LeasesChangedSince returns the leases that were granted, expired or ended after a revision,
// oldest change first.
func (v *View) LeasesChangedSince(revision uint64) iter.Seq[*internalv1.Lease] {
	return func(yield func(*internalv1.Lease) bool) {
		for _, l := range v.leases.scan(leasesByRevision, "", ordered(revision)) {
			if !yield(l) {
				return
			}
		}
	}
}
