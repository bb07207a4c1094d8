package ui

import (
	"fmt"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// ended reports whether a run has ended.
func ended(r *holdfastv1.Run) bool { return r.GetPhase() >= holdfastv1.Run_SUCCEEDED }

// attempts is how many attempts of a step were made, of how many: "2/3". A step that waits has "".
func attempts(s *holdfastv1.StepStatus) string {
	if s.GetState() <= holdfastv1.StepStatus_WAITING {
		return ""
	}
	made := max(int32(len(s.GetAttempts())), s.GetRetryCount()+1)
	return fmt.Sprintf("%d/%d", made, max(s.GetMaxRetries()+1, made))
}

// stepsDone is how many steps have succeeded, of how many: "2/5".
func stepsDone(r *holdfastv1.Run) string {
	n := 0
	for _, s := range r.GetSteps() {
		if s.GetState() == holdfastv1.StepStatus_SUCCEEDED {
			n++
		}
	}
	return fmt.Sprintf("%d/%d", n, len(r.GetSteps()))
}

// why is what a run waits for, or why it did not succeed, in a few words: those of `run list -o
// wide`.
func why(r *holdfastv1.Run) string {
	switch {
	case r.GetError().GetMessage() != "":
		return r.GetError().GetMessage()
	case r.GetError().GetReason() != "":
		return r.GetError().GetReason()
	case ended(r):
		return ""
	case r.GetQueuePosition() > 0:
		return fmt.Sprintf("position %d in the queue", r.GetQueuePosition())
	case r.GetCancelRequestedAt() != nil:
		return "canceling"
	case r.GetWaitingFor() != "":
		return "waiting for " + r.GetWaitingFor()
	}
	return ""
}
