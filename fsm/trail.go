package fsm

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/trail"
)

// MaxDenials is the maximum number of events in one RecordDenials.
const MaxDenials = trail.MaxDenials
