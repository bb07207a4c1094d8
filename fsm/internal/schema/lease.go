package schema

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	"github.com/holdfast-metal/holdfast/fsm/internal/wire"
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
		Partial: partialLease,

		SameKeys: func(old, l *internalv1.Lease) bool {
			return old.GetRevision() == l.GetRevision() && old.GetGone() == l.GetGone() &&
				old.GetExpiredAt() == l.GetExpiredAt()
		},
	}
}

// LeaseKey returns the key of a lease.
func LeaseKey(r *internalv1.LeaseRef) string { return r.GetKind().String() + "/" + r.GetId() }

// partialLease returns a partial decoder of leases.
func partialLease() func(row string) *internalv1.Lease {
	l, expired := &internalv1.Lease{Ref: &internalv1.LeaseRef{}}, &timestamppb.Timestamp{}
	return func(row string) *internalv1.Lease {
		l.Ref.Reset()
		expired.Reset()
		l.ExpiredAt, l.Revision, l.Gone = nil, 0, false
		for f := range wire.FieldsOf(row) {
			switch {
			case f.IsText(1):
				partialLeaseRef(l.Ref, f.Text)
			case f.IsText(5):
				l.ExpiredAt = expired
				partialTime(expired, f.Text)
			case f.IsVarint(7):
				l.Revision = f.Value
			case f.IsVarint(11):
				l.Gone = protowire.DecodeBool(f.Value)
			}
		}
		return l
	}
}

func partialLeaseRef(r *internalv1.LeaseRef, text string) {
	for f := range wire.FieldsOf(text) {
		switch {
		case f.IsVarint(1):
			r.Kind = internalv1.LeaseRef_Kind(f.Value)
		case f.IsText(2):
			r.Id = f.Text
		}
	}
}
