package ui

import (
	"strings"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// runsBody is the list of runs, newest first.
type runsBody struct {
	Filter        string
	Runs          []*holdfastv1.Run
	Next, First   string
	Hints         []hint
	FilterInvalid bool
	Plots         *plots
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
			b.Next = link("/ui/runs", "filter", b.Filter, "page", t)
		}
		if token != "" {
			b.First = link("/ui/runs", "filter", b.Filter)
		}
		b.Plots, err = plotRunsOf(v, b.Filter)
	}
	b.Hints = []hint{
		{"active", link("/ui/runs", "filter", "phase = RUNNING OR phase = PENDING")},
		{"failed", link("/ui/runs", "filter", "phase = FAILED")},
		{"canceled", link("/ui/runs", "filter", "phase = CANCELED")},
		{"repaves", link("/ui/runs", "filter", "type = REPAVE")},
	}
	return v.page("runs", "Runs", "runs", b, err)
}

// plotRunsOf returns charts of the latest runs that match a filter, or nil if there are
// none.
func plotRunsOf(v *visit, filter string) (*plots, error) {
	req := &holdfastv1.ListRunsRequest{Filter: filter, PageSize: plotRuns}
	resp, err := v.read.runs.ListRuns(v.ctx, req)
	if err != nil || len(resp.GetRuns()) == 0 {
		return nil, err
	}
	return plot(resp.GetRuns()), nil
}
