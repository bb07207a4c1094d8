package schema

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// OutcomesByNumber is the index of remembered outcomes, oldest first.
const OutcomesByNumber = 0

// Outcomes returns the schema of remembered outcomes of commands.
func Outcomes() *table.Schema[*internalv1.StoredOutcome] {
	return &table.Schema[*internalv1.StoredOutcome]{
		Kind:    internalv1.SnapshotRecord_OUTCOMES,
		Key:     (*internalv1.StoredOutcome).GetId,
		Indexes: 1,
		Index: func(o *internalv1.StoredOutcome, add func(int, string)) {
			add(OutcomesByNumber, Ordered(o.GetNumber()))
		},
	}
}
