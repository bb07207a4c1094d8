package ui

import (
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/internal/display"
)

// runsBody is the list of runs, newest first.
type runsBody struct {
	Filter        string
	Runs          []*holdfastv1.Run
	Next, First   string
	Hints         []hint
	FilterInvalid bool
	Plots         *display.Plots
}

func (d *dashboard) runs(v *visit) error {
	q := v.r.URL.Query()
	b := runsBody{Filter: strings.TrimSpace(q.Get("filter"))}
	token := q.Get("page")
	resp, err := v.read.runs.ListRuns(v.ctx, &holdfastv1.ListRunsRequest{
		Filter:    b.Filter,
		PageSize:  rows,
		PageToken: token,
	})
	b.FilterInvalid = err != nil && b.Filter != ""
	if err == nil {
		b.Runs = resp.GetRuns()
		if t := resp.GetNextPageToken(); t != "" {
			b.Next = display.Link("/ui/runs", "filter", b.Filter, "page", t)
		}
		if token != "" {
			b.First = display.Link("/ui/runs", "filter", b.Filter)
		}
		b.Plots, err = plotRunsOf(v, b.Filter)
	}
	b.Hints = []hint{
		{"active", display.Link("/ui/runs", "filter", "phase = RUNNING OR phase = PENDING")},
		{"failed", display.Link("/ui/runs", "filter", "phase = FAILED")},
		{"canceled", display.Link("/ui/runs", "filter", "phase = CANCELED")},
		{"repaves", display.Link("/ui/runs", "filter", "type = REPAVE")},
	}
	return v.page("runs", "Runs", "runs", b, err)
}

// plotRunsOf returns charts of the latest runs that match a filter, or nil if there are
// none.
func plotRunsOf(v *visit, filter string) (*display.Plots, error) {
	req := &holdfastv1.ListRunsRequest{Filter: filter, PageSize: display.PlotRuns}
	resp, err := v.read.runs.ListRuns(v.ctx, req)
	if err != nil || len(resp.GetRuns()) == 0 {
		return nil, err
	}
	return display.Plot(resp.GetRuns()), nil
}

// runBody is the page of one run.
type runBody struct {
	Run       *holdfastv1.Run
	Steps     []display.StepRow
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

// shownLog is how much of the end of a log a page shows.
const shownLog = 64 << 10

func (d *dashboard) run(v *visit) error {
	run, err := v.read.runs.GetRun(v.ctx, &holdfastv1.GetRunRequest{RunId: v.r.PathValue("id")})
	if err != nil {
		return err
	}
	b := runBody{Run: run, Steps: display.Timeline(run, timestamppb.New(v.now()))}
	b.MayCancel = !display.Ended(run) && run.GetCancelRequestedAt() == nil && v.rules.may(v.who, "RunService/CancelRun")
	b.MayRetry = display.Ended(run) && run.GetPhase() != holdfastv1.Run_SUCCEEDED && !run.GetObserved() &&
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
