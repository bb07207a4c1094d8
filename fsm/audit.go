package fsm

import (
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

func auditSchema() *schema[holdfastv1.AuditEvent, *holdfastv1.AuditEvent] {
	return &schema[holdfastv1.AuditEvent, *holdfastv1.AuditEvent]{
		kind: internalv1.SnapshotRecord_AUDIT,
		key:  func(e *holdfastv1.AuditEvent) string { return ordered(e.GetSequence()) },
	}
}

func (t *tx) recordDenials(_ *internalv1.RecordDenials) *Error { return unbuilt() }
