package display

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Plots are charts of the durations and failures of recent runs.
type Plots struct {
	Runs                     int
	Took, Failed             []plotRow
	TookHeight, FailedHeight int
}

// plotRow is a bar with its name and value. Positions are in units of the chart.
type plotRow struct {
	Name, Label, Title             string
	X, Y, Text, Width, Span, After int
}

// The size of a chart: names to the left, bars, values to the right.
const (
	plotNames = 190
	plotBars  = 340
	plotLine  = 24
	plotMost  = 10 // rows
	PlotRuns  = 300
)

// Plot draws the durations of steps and the causes of failed attempts.
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
	p.drawTook(took)
	p.drawFailed(failed)
	return p
}

func (p *Plots) drawTook(took map[string][]time.Duration) {
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
	for i, r := range rows[:min(len(rows), plotMost)] {
		b := newPlotRow(i, r.name)
		b.Width, b.Span = int(r.half*plotBars/longest)+1, int(r.nearly*plotBars/longest)+1
		b.After = b.X + b.Span + 6
		b.Label = duration(r.half) + " / " + duration(r.nearly)
		b.Title = fmt.Sprintf("%s: p50 %s, p95 %s, %d attempts", r.name, duration(r.half), duration(r.nearly), r.n)
		p.Took = append(p.Took, b)
	}
	p.TookHeight = len(p.Took)*plotLine + 4
}

func (p *Plots) drawFailed(failed map[string]int) {
	names, most := make([]string, 0, len(failed)), 1
	for name, n := range failed {
		names, most = append(names, name), max(most, n)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(failed[b], failed[a]), cmp.Compare(a, b))
	})
	for i, name := range names[:min(len(names), plotMost)] {
		b := newPlotRow(i, name)
		b.Width = failed[name]*plotBars/most + 1
		b.After, b.Label = b.X+b.Width+6, Count(failed[name])
		b.Title = fmt.Sprintf("%s: %d attempts", name, failed[name])
		p.Failed = append(p.Failed, b)
	}
	p.FailedHeight = len(p.Failed)*plotLine + 4
}

func newPlotRow(i int, name string) plotRow {
	if r := []rune(name); len(r) > 28 {
		name = string(r[:27]) + "…"
	}
	return plotRow{Name: name, X: plotNames, Y: i*plotLine + 4, Text: i*plotLine + 15}
}
