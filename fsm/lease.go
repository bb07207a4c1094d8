package fsm

// LEAD TO THE D-FSM HELPER (12:45): leases have their own clock. Read the comments of proto/internal/v1/lease.proto (changed at
// 12:45): Lease.seen_ms, Lease.revision, CheckpointLeases.clock_ms, SeenLease.seen_ms, ExpireLeases.clock_ms, Meta.lease_clock_ms. A grant sets
// seen_ms = meta.lease_clock_ms and revision = index. Both commands set meta.lease_clock_ms = max(old, clock_ms). The engine needs
// View.LeaseClock() int64, View.Lease(kind, id), View.LeasesChangedSince(revision) iter.Seq[*internalv1.Lease] (index on ordered(revision)+key; grants,
// expiries, ends; checkpoints do not change revision), View.Leases(). Ended leases (deregistered, deleted) are marked expired_at too or removed after
// the engine could see it: keep the row with expired_at set, drop it with its owner's archive. Remove this note when done.

import (
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

func unbuilt() *Error { return refuse(FailedPrecondition, "NOT_BUILT", "this part is being built") }

func leaseSchema() *schema[internalv1.Lease, *internalv1.Lease] {
	return &schema[internalv1.Lease, *internalv1.Lease]{
		kind: internalv1.SnapshotRecord_LEASES,
		key:  func(l *internalv1.Lease) string { return leaseKey(l.GetRef()) },
	}
}

func leaseKey(r *internalv1.LeaseRef) string { return r.GetKind().String() + "/" + r.GetId() }

func (t *tx) checkpointLeases(_ *internalv1.CheckpointLeases) *Error { return unbuilt() }

func (t *tx) expireLeases(_ *internalv1.ExpireLeases) *Error { return unbuilt() }
