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

// LastAttempt returns the last attempt of a step, or nil.
func LastAttempt(s *holdfastv1.StepStatus) *holdfastv1.Attempt {
	if n := len(s.GetAttempts()); n > 0 {
		return s.GetAttempts()[n-1]
	}
	return nil
}

// Open reports whether an attempt has begun and not ended.
func Open(a *holdfastv1.Attempt) bool {
	return a != nil && a.GetOutcome() == holdfastv1.Attempt_OUTCOME_UNSPECIFIED
}
