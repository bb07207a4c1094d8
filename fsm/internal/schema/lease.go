package schema

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// The indexes of leases.
const (
	LeasesByRevision = iota // all leases; the engine follows it
	LeasesGone              // leases ended by their owner, by time
	leaseIndexes            // the number of indexes
)

// Leases returns the schema of leases.
func Leases() *table.Schema[*internalv1.Lease] {
	return &table.Schema[*internalv1.Lease]{
		Kind:    internalv1.SnapshotRecord_LEASES,
		Key:     func(l *internalv1.Lease) string { return LeaseKey(l.GetRef()) },
		Indexes: leaseIndexes,
		Index: func(l *internalv1.Lease, add func(int, string)) {
			add(LeasesByRevision, Ordered(l.GetRevision()))
			if l.GetGone() {
				add(LeasesGone, OrderedTime(l.GetExpiredAt(), ""))
			}
		},
		Fields: []string{"ref.kind", "ref.id", "expired_at", "revision", "gone"},

		SameKeys: func(old, l *internalv1.Lease) bool {
			return old.GetRevision() == l.GetRevision() && old.GetGone() == l.GetGone() &&
				old.GetExpiredAt() == l.GetExpiredAt()
		},
	}
}

// LeaseKey returns the key of a lease.
func LeaseKey(r *internalv1.LeaseRef) string { return r.GetKind().String() + "/" + r.GetId() }
