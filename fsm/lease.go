package fsm

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
