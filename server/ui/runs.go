package ui

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/httpjson"
	"github.com/holdfast-metal/holdfast/server/ui/internal/display"
	"github.com/holdfast-metal/holdfast/server/ui/internal/lists"
)

// runsBody is the list of runs, newest first.
type runsBody struct {
	Filter        string
	Runs          []*holdfastv1.Run
	Hints         []hint
	FilterInvalid bool
	Plots         *display.Plots
	pageLinks
}

func (d *dashboard) runs(v *visit) error {
	b := runsBody{Filter: strings.TrimSpace(v.r.URL.Query().Get("filter"))}
	var err error
	b.Runs, b.pageLinks, err = listed(v, "/ui/runs", lists.Kind{One: "run", Many: "runs"}, b.Filter, v.listRuns)
	b.FilterInvalid = err != nil && b.Filter != ""
	if err == nil {
		b.Plots, err = plotRunsOf(v, b.Filter)
	}
	b.Hints = []hint{
		{"active", display.Link("/ui/runs", "filter", activeRuns)},
		{"failed", display.Link("/ui/runs", "filter", "phase = FAILED")},
		{"canceled", display.Link("/ui/runs", "filter", "phase = CANCELED")},
		{"repaves", display.Link("/ui/runs", "filter", "type = REPAVE")},
	}
	return v.page("runs", "Runs", "runs", b, err)
}

// listRuns reads a page of the runs that match.
func (v *visit) listRuns(ctx context.Context, q lists.Query) ([]*holdfastv1.Run, string, error) {
	resp, err := v.read.runs.ListRuns(ctx, &holdfastv1.ListRunsRequest{
		Filter: q.Filter, PageSize: q.Size, PageToken: q.Page,
	})
	return resp.GetRuns(), resp.GetNextPageToken(), err
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
	Wave      string // id of the wave that started it; empty: none
}

// logBody is the shown part of a log.
type logBody struct {
	Run    *holdfastv1.Run
	Pieces []display.LogPiece
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
	b.MayCancel = !display.Ended(run) && run.GetCancelRequestedAt() == nil && v.may("RunService/CancelRun")
	b.MayRetry = display.Ended(run) && run.GetPhase() != holdfastv1.Run_SUCCEEDED && !run.GetObserved() &&
		v.may("RunService/StartRun")
	if b.Wave, err = waveOf(v, run); err != nil {
		return err
	}
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
			b.Pieces = display.AppendLog(b.Pieces, c)
		}
		b.End = c.GetOffset() + int64(len(c.GetData()))
		return nil
	})
	return b, err
}

// runLog streams the log of a run, or one of its streams, as server-sent events. It starts
// at an offset or after the last event. When the run has ended, it sends the event "end".
// With ?as=text it responds with the whole log so far.
func (d *dashboard) runLog(w http.ResponseWriter, r *http.Request) {
	q, id := r.URL.Query(), r.PathValue("id")
	if q.Get("as") == "text" {
		d.wholeLog(w, r, id)
		return
	}
	offset, err := strconv.ParseInt(cmp.Or(r.Header.Get("Last-Event-ID"), q.Get("offset"), "0"), 10, 64)
	if err != nil || offset < 0 {
		http.Error(w, "offset is invalid: want a byte offset in the log", http.StatusBadRequest)
		return
	}
	s, only := d.stream(w, r), q.Get("stream")
	s.run(func(send func(text string) error) error { //nolint:contextcheck // the stream has the context of its request
		req := &holdfastv1.StreamRunLogsRequest{RunId: id, Offset: offset}
		err := d.feed.RunLog(s.ctx, req, func(c *holdfastv1.LogChunk) error {
			if only != "" && c.GetStream() != only {
				return nil
			}
			data, _ := json.Marshal(display.Piece(c)) // a piece always marshals
			next := c.GetOffset() + int64(len(c.GetData()))
			return send(fmt.Sprintf("id: %d\nevent: log\ndata: %s\n\n", next, data))
		})
		if err == nil {
			err = send("event: end\ndata: {}\n\n")
		}
		return err
	})
}

// wholeLog responds with the unmodified log as text. If the log breaks off, it cuts the connection,
// so that no client takes a part for the whole.
func (d *dashboard) wholeLog(w http.ResponseWriter, r *http.Request, id string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	req := &holdfastv1.StreamRunLogsRequest{RunId: id, NoFollow: true}
	begun := false
	err := d.feed.RunLog(r.Context(), req, func(c *holdfastv1.LogChunk) error {
		begun = true
		_, err := w.Write(c.GetData())
		return err
	})
	switch {
	case err == nil:
	case begun:
		panic(http.ErrAbortHandler)
	default:
		http.Error(w, httpjson.Message(err), httpjson.Status(err))
	}
}
