package display

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// StepRow is a step with its position on the run's timeline, in thousandths.
type StepRow struct {
	*holdfastv1.StepStatus
	Current bool
	Bars    []timeBar
}

// timeBar is an attempt on the timeline, in thousandths of its width.
type timeBar struct {
	Class, Title string
	X, Width     int
}

// Timeline places the attempts of each step on the timeline of the run.
func Timeline(run *holdfastv1.Run, now *timestamppb.Timestamp) []StepRow {
	begin, end := run.GetStartedAt(), run.GetFinishedAt()
	if end == nil {
		end = now
	}
	whole := max(end.AsTime().Sub(begin.AsTime()), 1)
	at := func(t *timestamppb.Timestamp) int {
		return int(min(max(t.AsTime().Sub(begin.AsTime())*1000/whole, 0), 1000))
	}
	var all []StepRow
	for _, s := range run.GetSteps() {
		row := StepRow{StepStatus: s, Current: !Ended(run) && s.GetName() == run.GetCurrentStep()}
		for _, a := range s.GetAttempts() {
			if begin == nil || a.GetStartedAt() == nil {
				continue
			}
			bar, until := timeBar{Class: "t-open", X: at(a.GetStartedAt()), Title: "attempt is open"}, a.GetFinishedAt()
			if until == nil {
				until = end
			}
			bar.Width = max(at(until)-bar.X, 4)
			bar.X = min(bar.X, 1000-bar.Width)
			took := duration(until.AsTime().Sub(a.GetStartedAt().AsTime()))
			switch a.GetOutcome() {
			case holdfastv1.Attempt_SUCCEEDED:
				bar.Class, bar.Title = "t-good", "succeeded after "+took
			case holdfastv1.Attempt_FAILED:
				bar.Class, bar.Title = "t-bad", "failed after "+took+": "+a.GetError()
			case holdfastv1.Attempt_CANCELED:
				bar.Class, bar.Title = "t-canceled", "canceled after "+took
			}
			row.Bars = append(row.Bars, bar)
		}
		all = append(all, row)
	}
	return all
}
