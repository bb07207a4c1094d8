package chart

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-metal/holdfast/server/ui/history"
	"github.com/holdfast-metal/holdfast/server/ui/history/series"
)

// Table is a chart in numbers, the newest row first.
type Table struct {
	Heads []string
	Rows  []Row
}

// Row is one part of the range.
type Row struct {
	When, Title string // relative and absolute
	Cells       []string
}

// rowsOf returns the number of rows of a range's tables.
func rowsOf(r history.Range) int {
	if r.Name == "14d" {
		return 14
	}
	return 12
}

// table returns a chart in numbers. It begins with the first sample.
func (p plot) table(w *history.Window) Table {
	var t Table
	for _, m := range p.measures {
		t.Heads = append(t.Heads, m.name)
	}
	n, points := rowsOf(w.Range), p.points()
	length := w.Range.Span / time.Duration(n)
	first := p.firstKnown()
	for i := n - 1; i >= 0 && points*(i+1)/n > first; i-- {
		from, to := points*i/n, points*(i+1)/n
		row := Row{When: short(time.Duration(n-i)*length) + " to " + until(time.Duration(n-1-i)*length)}
		for _, m := range p.measures {
			text := "-"
			if total := series.Combine(m.line.Kind, m.line.Points[from:to]); total.Periods > 0 {
				text = m.text(total.Value)
			}
			row.Cells = append(row.Cells, text)
			row.Title = stamp(m.line, from) + " to " + stamp(m.line, to)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// firstKnown returns the first point that any line knows.
func (p plot) firstKnown() int {
	first := p.points()
	for _, m := range p.measures {
		known := func(pt series.Point) bool { return pt.Periods > 0 }
		if i := slices.IndexFunc(m.line.Points, known); i >= 0 {
			first = min(first, i)
		}
	}
	return first
}

// stamp formats the begin of a point.
func stamp(l history.Line, i int) string {
	return l.From.Add(time.Duration(i) * l.Step).UTC().Format("2006-01-02 15:04 MST")
}

// short formats a time span of a range.
func short(d time.Duration) string {
	switch {
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d <= 48*time.Hour && d%time.Hour == 0:
		return fmt.Sprintf("%d h", d/time.Hour)
	case d < 48*time.Hour:
		return fmt.Sprintf("%.1f h", d.Hours())
	}
	return fmt.Sprintf("%d d", d/(24*time.Hour))
}

func until(ago time.Duration) string {
	if ago == 0 {
		return "now"
	}
	return short(ago) + " ago"
}
