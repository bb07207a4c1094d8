package fsm

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/runs"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// SameWait reports whether two waits are for the same event. Their causes and times do not count.
func SameWait(a, b *holdfastv1.Wait) bool { return runs.SameWait(a, b) }
