package ui

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// runBody is the page of one run.
type runBody struct {
	Run       *holdfastv1.Run
	Steps     []stepRow
	Log       logBody
	MayCancel bool
	MayRetry  bool
}

// logBody is the shown part of a log.
type logBody struct {
	Run    *holdfastv1.Run
	Pieces []logPiece
	End    int64  // offset of the end
	Cut    bool   // the beginning is not shown
	Stream string // the only stream to show, or "" for all
}

// stepRow is a step with its position on the run's timeline, in thousandths.
type stepRow struct {
	*holdfastv1.StepStatus
	Current bool
	Bars    []timeBar
}

type timeBar struct {
	Class, Title string
	X, Width     int
}

// shownLog is how much of the end of a log a page shows.
const shownLog = 64 << 10

func (d *dashboard) run(v *visit) error {
	run, err := v.read.runs.GetRun(v.ctx, &holdfastv1.GetRunRequest{RunId: v.r.PathValue("id")})
	if err != nil {
		return err
	}
	b := runBody{Run: run, Steps: timeline(run, timestamppb.New(v.now()))}
	b.MayCancel = !ended(run) && run.GetCancelRequestedAt() == nil && v.rules.may(v.who, "RunService/CancelRun")
	b.MayRetry = ended(run) && run.GetPhase() != holdfastv1.Run_SUCCEEDED && !run.GetObserved() &&
		v.rules.may(v.who, "RunService/StartRun")
	if b.Log, err = d.theLog(v, run, ""); err != nil {
		return err
	}
	return v.page("run", run.GetRunId(), "runs", b, nil)
}

// theLog reads the end of a run's log, or all of it with ?log=all.
func (d *dashboard) theLog(v *visit, run *holdfastv1.Run, stream string) (logBody, error) {
	b := logBody{Run: run, Stream: stream}
	if v.r.URL.Query().Get("log") != "all" {
		b.End = max(0, run.GetLogBytes()-shownLog)
	}
	b.Cut = b.End > 0
	req := &holdfastv1.StreamRunLogsRequest{RunId: run.GetRunId(), Offset: b.End, NoFollow: true}
	err := d.feed.RunLog(v.ctx, req, func(c *holdfastv1.LogChunk) error {
		if stream == "" || c.GetStream() == stream {
			b.Pieces = appendLog(b.Pieces, c)
		}
		b.End = c.GetOffset() + int64(len(c.GetData()))
		return nil
	})
	return b, err
}

// timeline places the attempts of each step on the timeline of the run.
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
