package display

import (
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Ended reports whether a run has ended.
func Ended(r *holdfastv1.Run) bool { return r.GetPhase() >= holdfastv1.Run_SUCCEEDED }

// why returns a short reason why a run is waiting or did not succeed, as in `run list -o
// wide`.
func why(r *holdfastv1.Run) string {
	text, _ := describe.Why(r)
	return text
}
