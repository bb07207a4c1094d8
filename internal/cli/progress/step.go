package progress

import (
	"cmp"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/internal/cli/render"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Took returns the duration of something that runs or has ended; "" before it starts.
func Took(now time.Time, started, finished *timestamppb.Timestamp) string {
	if started == nil {
		return ""
	}
	end := now
	if finished != nil {
		end = finished.AsTime()
	}
	return describe.Duration(end.Sub(started.AsTime()))
}

// Why returns, in a few words, the condition that a run waits for, or the reason why it did not
// succeed.
func Why(r *holdfastv1.Run, now time.Time) string {
	if text := cmp.Or(describe.Reads(r, now), describe.Ignores(r, now)); text != "" {
		return text
	}
	text, waits := describe.Why(r)
	if !waits {
		return text
	}
	if next := r.GetNextActionAt(); next != nil && next.AsTime().After(now) {
		text += ", next action " + render.Until(now, next.AsTime())
	} else if end := describe.Deadline(r); end != nil && end.AsTime().After(now) {
		text += ", deadline " + render.Until(now, end.AsTime())
	}
	return text
}

// Current returns the current step of a run, or nil.
func Current(r *holdfastv1.Run) *holdfastv1.StepStatus {
	for _, s := range r.GetSteps() {
		if s.GetName() == r.GetCurrentStep() {
			return s
		}
	}
	return nil
}
