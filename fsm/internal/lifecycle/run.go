package lifecycle

import holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"

// Ended reports whether a run is terminal.
func Ended(r *holdfastv1.Run) bool {
	switch r.GetPhase() {
	case holdfastv1.Run_SUCCEEDED, holdfastv1.Run_FAILED, holdfastv1.Run_CANCELED:
		return true
	}
	return false
}
