package ui

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// runBody is one run.
type runBody struct {
	Run       *holdfastv1.Run
	Steps     []stepRow
	Log       logBody
	MayCancel bool
	MayRetry  bool
}

// logBody is what a page has of a log.
type logBody struct {
	Run    *holdfastv1.Run
	Pieces []logPiece
	End    int64  // where it goes on
	Cut    bool   // it is longer than what is shown
	Stream string // the only one that is shown; empty: all
}

// stepRow is a step and where it lies on the time line of its run, in per mille.
type stepRow struct {
	*holdfastv1.StepStatus
	Current bool
	Bars    []timeBar
}

type timeBar struct {
	Class, Title string
	X, Width     int
}

// shownLog is how much of a log's end a page has: the rest is a link away.
const shownLog = 64 << 10

func (d *dashboard) run(v *visit) error {
	run, err := v.read.runs.GetRun(v.ctx, &holdfastv1.GetRunRequest{RunId: v.r.PathValue("id")})
	if err != nil {
		return err
	}
	b := runBody{Run: run, Steps: timeline(run, timestamppb.New(v.now()))}
	b.MayCancel = !ended(run) && run.GetCancelRequestedAt() == nil && v.rules.may(v.who, "RunService/CancelRun")
	b.MayRetry = ended(run) && run.GetPhase() != holdfastv1.Run_SUCCEEDED && !run.GetObserved() && v.rules.may(v.who, "RunService/StartRun")
	if b.Log, err = d.theLog(v, run, ""); err != nil {
		return err
	}
	return v.page("run", run.GetRunId(), "runs", b, nil)
}

// theLog reads the end of a run's log, or all of it where the address says so.
func (d *dashboard) theLog(v *visit, run *holdfastv1.Run, stream string) (logBody, error) {
	b := logBody{Run: run, Stream: stream}
	if v.r.URL.Query().Get("log") != "all" {
		b.End = max(0, run.GetLogBytes()-shownLog)
	}
	b.Cut = b.End > 0
	err := d.feed.RunLog(v.ctx, &holdfastv1.StreamRunLogsRequest{RunId: run.GetRunId(), Offset: b.End, NoFollow: true}, func(c *holdfastv1.LogChunk) error {
		if stream == "" || c.GetStream() == stream {
			b.Pieces = appendLog(b.Pieces, c)
		}
		b.End = c.GetOffset() + int64(len(c.GetData()))
		return nil
	})
	return b, err
}

// timeline places the attempts of each step on the time that the run has taken.
func timeline(run *holdfastv1.Run, now *timestamppb.Timestamp) []stepRow {
	begin, end := run.GetStartedAt(), run.GetFinishedAt()
	if end == nil {
		end = now
	}
	whole := max(end.AsTime().Sub(begin.AsTime()), 1)
	at := func(t *timestamppb.Timestamp) int {
		return int(min(max(t.AsTime().Sub(begin.AsTime())*1000/whole, 0), 1000))
	}
	var all []stepRow
	for _, s := range run.GetSteps() {
		row := stepRow{StepStatus: s, Current: !ended(run) && s.GetName() == run.GetCurrentStep()}
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
