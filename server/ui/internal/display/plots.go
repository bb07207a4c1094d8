package display

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"

	"github.com/holdfast-metal/holdfast/internal/describe"
)

// Plots are the durations and failures of recent runs, as bars.
type Plots struct {
	Runs         int
	Took, Failed []plotRow
}

// plotRow is a bar with its name and value.
type plotRow struct {
	Name, Label, Title string
	Class              string // of the bar
	Width, Span        int    // of 1000: the bar, and a pale one behind it; 0: none
}

const (
	plotMost  = 10   // rows
	plotWidth = 1000 // of the longest bar
	plotLeast = 4    // of the shortest bar
)

// PlotRuns is the number of runs that the plots are about.
const PlotRuns = 300

// Plot returns the durations of steps and the causes of failed attempts.
func Plot(runs []*holdfastv1.Run) *Plots {
	took, failed := map[string][]time.Duration{}, map[string]int{}
	for _, r := range runs {
		for _, s := range r.GetSteps() {
			for _, a := range s.GetAttempts() {
				switch a.GetOutcome() {
				case holdfastv1.Attempt_SUCCEEDED:
					d := a.GetFinishedAt().AsTime().Sub(a.GetStartedAt().AsTime())
					took[s.GetName()] = append(took[s.GetName()], d)
				case holdfastv1.Attempt_FAILED:
					failed[cmp.Or(a.GetErrorClass(), "other")+": "+s.GetName()]++
				}
			}
		}
	}
	p := &Plots{Runs: len(runs)}
	p.rankTook(took)
	p.rankFailed(failed)
	return p
}

func (p *Plots) rankTook(took map[string][]time.Duration) {
	type row struct {
		name         string
		half, nearly time.Duration
		n            int
	}
	var rows []row
	longest := time.Duration(1)
	for name, all := range took {
		slices.Sort(all)
		r := row{name, all[(len(all)-1)/2], all[(len(all)-1)*95/100], len(all)}
		rows, longest = append(rows, r), max(longest, r.nearly)
	}
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(b.nearly, a.nearly), cmp.Compare(a.name, b.name))
	})
	for _, r := range rows[:min(len(rows), plotMost)] {
		half, nearly := duration(r.half), duration(r.nearly)
		p.Took = append(p.Took, plotRow{
			Name:  r.name,
			Label: half + " / " + nearly,
			Title: fmt.Sprintf("%s: p50 %s, p95 %s, %s", r.name, half, nearly, describe.Number(r.n, "attempt")),
			Class: "p-bar",
			Width: max(int(r.half*plotWidth/longest), plotLeast),
			Span:  int(r.nearly * plotWidth / longest),
		})
	}
}

func (p *Plots) rankFailed(failed map[string]int) {
	names, most := make([]string, 0, len(failed)), 1
	for name, n := range failed {
		names, most = append(names, name), max(most, n)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(failed[b], failed[a]), cmp.Compare(a, b))
	})
	for _, name := range names[:min(len(names), plotMost)] {
		p.Failed = append(p.Failed, plotRow{
			Name:  name,
			Label: describe.Count(failed[name]),
			Title: fmt.Sprintf("%s: %s", name, describe.Number(failed[name], "attempt")),
			Class: "p-bad",
			Width: max(failed[name]*plotWidth/most, plotLeast),
		})
	}
}
