package chart

import (
	"math"
	"time"

	"github.com/holdfast-metal/holdfast/server/ui/history"
	"github.com/holdfast-metal/holdfast/server/ui/history/series"
)

// The edges of the plot area, in units of the drawing.
const (
	left  = 56
	plane = 720 // its width
	top   = 14
	base  = 150
)

// Chart is one chart, ready to be shown.
type Chart struct {
	Frame

	ID, Title, Now string
	Label          string // the chart in one sentence
	Empty          string // why there is nothing to draw, or ""
	Areas, Lines   []Curve
	Marks          []Mark // changes of the leader
	Levels         []Mark // horizontal lines
	Ticks          []Mark // labels of the time
	Table          Table
}

// Frame is the size of a drawing and the edges of its plot area.
type Frame struct {
	Width, Height          int
	Left, Right, Top, Base int
	Before                 int // end of labels left of the plot area
	Under                  int // upper edge of labels below the plot area
}

func frame() Frame {
	return Frame{
		Width: left + plane + 8, Height: base + 22, Left: left, Right: left + plane, Top: top, Base: base,
		Before: left - 6, Under: base + 7,
	}
}

// Curve is a path with its name in the legend.
type Curve struct{ Class, Name, D string }

// Mark is a labelled position.
type Mark struct {
	At     int
	Anchor string // class of the label: "", mid or end
	Label  string
	Title  string
}

// measure is one line of a chart.
type measure struct {
	class, name string
	line        history.Line
	text        func(float64) string // formats the combined value of a table row
}

// value returns the value of a known point as it is drawn: of counts, the rate.
func (m measure) value(p series.Point) float64 {
	if m.line.Kind == series.Sum {
		return m.line.PerMinute(p)
	}
	return p.Value
}

// plot is the description of a chart before it is drawn.
type plot struct {
	id, title, now string
	summary        string // now in words, for the label
	empty          string // shown if there are no samples
	measures       []measure
	format         func(float64) string // formats a value of the scale
	stacked        bool
	leaders        []history.Leader
}

// draw draws a chart of a window.
func (p plot) draw(w *history.Window) Chart {
	c := Chart{Frame: frame(), ID: p.id, Title: p.title, Now: p.now, Ticks: ticks(w.Range), Table: p.table(w)}
	if p.firstKnown() == p.points() {
		c.Empty = p.empty
		return c
	}
	most := p.most()
	scale := round(most)
	for _, share := range []int{2, 1, 0} {
		y := base - (base-top)*share/2
		c.Levels = append(c.Levels, Mark{At: y, Label: p.format(scale * float64(share) / 2)})
	}
	if p.stacked {
		c.Areas = p.areas(scale)
	} else {
		for _, m := range p.measures {
			c.Lines = append(c.Lines, Curve{m.class, m.name, m.path(scale)})
		}
	}
	c.Marks = marks(p.leaders, w)
	c.Label = p.title + ", last " + w.Range.Text + ": " + p.summary + ", maximum " + p.format(most)
	return c
}

// most returns the highest value, or, if stacked, the highest total.
func (p plot) most() float64 {
	most := 0.0
	for i := range p.points() {
		total := 0.0
		for _, m := range p.measures {
			if x := m.line.Points[i]; x.Periods > 0 {
				most = max(most, m.value(x))
				total += m.value(x)
			}
		}
		if p.stacked {
			most = max(most, total)
		}
	}
	return most
}

// points returns the number of points of each line.
func (p plot) points() int {
	if len(p.measures) == 0 {
		return 0
	}
	return len(p.measures[0].line.Points)
}

// round returns the smallest of 1, 2, 5, 10, … that is not less than v.
func round(v float64) float64 {
	if v <= 0 {
		return 1
	}
	ten := math.Pow(10, math.Floor(math.Log10(v)))
	for _, f := range []float64{1, 2, 5} {
		if v <= f*ten*(1+1e-9) {
			return f * ten
		}
	}
	return 10 * ten
}

// ticks returns the labels of the time in a range.
func ticks(r history.Range) []Mark {
	step := map[string]time.Duration{"1h": 15 * time.Minute, "6h": 2 * time.Hour, "24h": 6 * time.Hour}[r.Name]
	if step == 0 {
		step = r.Span / 2
	}
	var all []Mark
	for ago := r.Span; ago >= 0; ago -= step {
		t := Mark{At: left + plane - int(plane*ago/r.Span), Label: short(ago), Anchor: "mid"}
		switch ago {
		case r.Span:
			t.Label, t.Anchor = short(ago)+" ago", ""
		case 0:
			t.Label, t.Anchor = "now", "end"
		}
		all = append(all, t)
	}
	return all
}

// minLabel is the least distance of two labels of leaders, so that they do not overlap.
const minLabel = 90

// marks returns a mark for each change of the leader within a window.
func marks(leaders []history.Leader, w *history.Window) []Mark {
	var all []Mark
	label := -minLabel
	for i, l := range leaders {
		if i == 0 || l.At.Before(w.From) {
			continue
		}
		at := left + int(plane*float64(l.At.Sub(w.From))/float64(w.Range.Span))
		m := Mark{At: at, Title: l.ID + " leads from here on, previously " + leaders[i-1].ID}
		if at-label >= minLabel {
			m.Label, label = l.ID, at
		}
		if at > left+plane*9/10 {
			m.Anchor = "end"
		}
		all = append(all, m)
	}
	return all
}
