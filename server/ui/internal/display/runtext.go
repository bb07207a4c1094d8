package display

import (
	"fmt"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Ended reports whether a run has ended.
func Ended(r *holdfastv1.Run) bool { return r.GetPhase() >= holdfastv1.Run_SUCCEEDED }

// attempts returns the number of attempts made and allowed, such as "2/3", or "" if the
// step has not started.
func attempts(s *holdfastv1.StepStatus) string {
	if s.GetState() <= holdfastv1.StepStatus_WAITING {
		return ""
	}
	made := max(int32(len(s.GetAttempts())), s.GetRetryCount()+1)
	return fmt.Sprintf("%d/%d", made, max(s.GetMaxRetries()+1, made))
}

// stepsDone returns the number of succeeded steps and of all steps, such as "2/5".
func stepsDone(r *holdfastv1.Run) string {
	n := 0
	for _, s := range r.GetSteps() {
		if s.GetState() == holdfastv1.StepStatus_SUCCEEDED {
			n++
		}
	}
	return fmt.Sprintf("%d/%d", n, len(r.GetSteps()))
}

// why returns a short reason why a run is waiting or did not succeed, as in `run list -o
// wide`.
func why(r *holdfastv1.Run) string {
	switch {
	case r.GetError().GetMessage() != "":
		return r.GetError().GetMessage()
	case r.GetError().GetReason() != "":
		return r.GetError().GetReason()
	case Ended(r):
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
