package progress

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Attempts returns the number of attempts of a step and its maximum: "2/3"; "" for a waiting
// step.
func Attempts(s *holdfastv1.StepStatus) string {
	if s.GetState() <= holdfastv1.StepStatus_WAITING {
		return ""
	}
	made := max(int32(len(s.GetAttempts())), s.GetRetryCount()+1)
	return fmt.Sprintf("%d/%d", made, max(s.GetMaxRetries()+1, made))
}

// Took returns the duration of something that runs or has ended; "" before it starts.
func Took(now time.Time, started, finished *timestamppb.Timestamp) string {
	if started == nil {
		return ""
	}
	end := now
	if finished != nil {
		end = finished.AsTime()
	}
	return render.Duration(end.Sub(started.AsTime()))
}

// Done returns the number of succeeded steps and their total: "2/5".
func Done(r *holdfastv1.Run) string {
	n := 0
	for _, s := range r.GetSteps() {
		if s.GetState() == holdfastv1.StepStatus_SUCCEEDED {
			n++
		}
	}
	return fmt.Sprintf("%d/%d", n, len(r.GetSteps()))
}

// Why returns, in a few words, the condition that a run waits for, or the reason why it did not
// succeed.
func Why(r *holdfastv1.Run, now time.Time) string {
	switch {
	case r.GetError().GetMessage() != "":
		return r.GetError().GetMessage()
	case r.GetError().GetReason() != "":
		return r.GetError().GetReason()
	case client.Finished(r):
		return ""
	case r.GetQueuePosition() > 0:
		return fmt.Sprintf("position %d in the queue", r.GetQueuePosition())
	case r.GetCancelRequestedAt() != nil:
		return "canceling"
	case r.GetWaitingFor() == "":
		return ""
	}
	text := "waiting for " + r.GetWaitingFor()
	if next := r.GetNextActionAt(); next != nil && next.AsTime().After(now) {
		text += ", next action " + render.Until(now, next.AsTime())
	} else if end := r.GetDeadline(); end != nil && end.AsTime().After(now) {
		text += ", deadline " + render.Until(now, end.AsTime())
	}
	return text
}

func current(r *holdfastv1.Run) *holdfastv1.StepStatus {
	for _, s := range r.GetSteps() {
		if s.GetName() == r.GetCurrentStep() {
			return s
		}
	}
	return nil
}
