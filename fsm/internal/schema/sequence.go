package schema

import (
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// sequence returns the schema of a sequence. field is the one that number returns.
func sequence[P proto.Message](
	kind internalv1.SnapshotRecord_Table, field string, number func(P) uint64,
) *table.Schema[P] {
	return &table.Schema[P]{
		Kind:      kind,
		Key:       func(m P) string { return Ordered(number(m)) },
		Number:    number,
		NumberKey: appendOrdered,
		Fields:    []string{field},
	}
}

// Audit returns the schema of audit events.
func Audit() *table.Schema[*holdfastv1.AuditEvent] {
	return sequence(internalv1.SnapshotRecord_AUDIT, "sequence", (*holdfastv1.AuditEvent).GetSequence)
}

// Events returns the schema of the event log.
func Events() *table.Schema[*holdfastv1.Event] {
	return sequence(internalv1.SnapshotRecord_EVENTS, "cursor", (*holdfastv1.Event).GetCursor)
}

// RunEvents returns the schema of the events of runs.
func RunEvents() *table.Schema[*holdfastv1.RunEvent] {
	return sequence(internalv1.SnapshotRecord_RUN_EVENTS, "cursor", (*holdfastv1.RunEvent).GetCursor)
}

// ServiceEvents returns the schema of the events of services.
func ServiceEvents() *table.Schema[*holdfastv1.ServiceEvent] {
	return sequence(internalv1.SnapshotRecord_SERVICE_EVENTS, "cursor", (*holdfastv1.ServiceEvent).GetCursor)
}
