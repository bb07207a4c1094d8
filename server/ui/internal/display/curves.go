package display

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/server/ui/history"
)

// Histories is this peer's history of the last hour (*history.History).
type Histories interface {
	// Samples returns the stored samples, oldest first.
	Samples() []history.Sample
	// Taken returns the number of samples taken since the start.
	Taken() uint64
}

// LastHour is the cluster's load in the last hour, as charts and as a table.
type LastHour struct {
	Curves []curve
	Rows   []hourRow // one per period, newest first
}

// curve is one chart.
type curve struct {
	ID, Title, Now, Label string
	Lines                 []curveLine
	Marks                 []curveMark // leader changes
	Levels                []curveMark // horizontal grid lines with labels
	Width, Height         int
	Left, Top, Base       int // edges of the plot area
}

// Before returns the x coordinate of labels left of the plot area.
func (c curve) Before() int { return c.Left - 6 }

// Under returns the y coordinate of labels below the plot area.
func (c curve) Under() int { return c.Base + 16 }

type curveLine struct{ Class, D, Name string }

type curveMark struct {
	At, Text    int
	Label, Long string
	End         bool // the label ends at the mark
}

// hourRow is one period of the hour, formatted.
type hourRow struct{ From, Leaders, Heartbeats, Commands, P50, P99 string }

// The size of a chart and its plot area. The hour is divided into parts of 15 seconds, each
// two units wide.
const (
	curveLeft  = 56
	curveTop   = 10
	curvePlane = 110
	curveSpan  = time.Hour
	curvePart  = 15 * time.Second
	curveUnits = 2
	curveWidth = curveLeft + int(curveSpan/curvePart)*curveUnits + 8
	hourPart   = 10 * time.Minute
)

// point is one part of the hour in a chart.
type point struct {
	there, known                   bool
	leader                         string
	heartbeats, commands, p50, p99 float64
	n, rated                       float64
}

// HourOf returns the charts for samples, or nil if there are none.
func HourOf(samples []history.Sample, now time.Time) *LastHour {
	if len(samples) == 0 {
		return nil
	}
	points := make([]point, int(curveSpan/curvePart))
	end := now.Truncate(curvePart).Add(curvePart)
	for _, s := range samples {
		if i := len(points) - 1 - int(end.Sub(s.At)/curvePart); i >= 0 && i < len(points) {
			points[i].add(s)
		}
	}
	h := &LastHour{Rows: rowsOf(samples, now)}
	marks := changes(points)
	last := samples[len(samples)-1]
	draw := func(id, title, now string, word func(float64) string, lines ...drawnLine) {
		c := curve{ID: id, Title: title, Now: now, Marks: marks}
		h.Curves = append(h.Curves, drawCurve(c, points, word, lines))
	}
	draw("signs", "Heartbeats/s", perSecond(last.Signs), perSecond,
		drawnLine{"p-half", "heartbeats", func(p point) (float64, bool) {
			return p.heartbeats / max(p.n, 1), p.leader != ""
		}})
	draw("commands", "Commands/s", perSecond(last.Commands), perSecond,
		drawnLine{"p-half", "commands", func(p point) (float64, bool) { return p.commands / max(p.rated, 1), p.known }})
	draw("commits", "Commit latency p50 / p99", InTime(last.Half)+" / "+InTime(last.Most), func(v float64) string {
		if v == 0 {
			return "0"
		}
		return InTime(time.Duration(v))
	},
		drawnLine{"p-most", "p99", func(p point) (float64, bool) { return p.p99, p.p99 > 0 }},
		drawnLine{"p-half", "p50", func(p point) (float64, bool) { return p.p50, p.p50 > 0 }})
	return h
}

// add adds a sample: rates are averaged, and of latencies the highest is kept.
func (p *point) add(s history.Sample) {
	p.there, p.leader = true, s.Leader
	if s.Leader == "" {
		return
	}
	p.n, p.heartbeats = p.n+1, p.heartbeats+s.Signs
	if s.Known {
		p.known, p.rated, p.commands = true, p.rated+1, p.commands+s.Commands
		p.p50, p.p99 = max(p.p50, float64(s.Half)), max(p.p99, float64(s.Most))
	}
}

// changes returns a mark for each change of the leader.
func changes(points []point) []curveMark {
	var all []curveMark
	before := ""
	for i, p := range points {
		if p.leader == "" {
			continue
		}
		if before != "" && p.leader != before {
			all = append(all, curveMark{
				At:    curveLeft + i*curveUnits,
				End:   i > len(points)*9/10,
				Label: p.leader,
				Long:  p.leader + " leads from here on, previously " + before,
			})
		}
		before = p.leader
	}
	return all
}

// drawnLine is one line of a chart.
type drawnLine struct {
	class, name string
	value       func(point) (float64, bool)
}

func drawCurve(c curve, points []point, word func(float64) string, lines []drawnLine) curve {
	c.Width, c.Height = curveWidth, curveTop+curvePlane+20
	c.Left, c.Top, c.Base = curveLeft, curveTop, curveTop+curvePlane
	most := 0.0
	for _, l := range lines {
		for _, p := range points {
			if v, ok := l.value(p); ok {
				most = max(most, v)
			}
		}
	}
	top := round(most)
	for _, share := range []int{2, 1, 0} {
		y := c.Base - curvePlane*share/2
		c.Levels = append(c.Levels, curveMark{At: y, Text: y + 4, Label: word(top * float64(share) / 2)})
	}
	c.Label = fmt.Sprintf("%s in the last hour: now %s, maximum %s", c.Title, c.Now, word(most))
	for _, l := range lines {
		c.Lines = append(c.Lines, curveLine{Class: l.class, Name: l.name, D: drawLine(points, l.value, top)})
	}
	return c
}

// drawLine returns the path of a line, with gaps where values are unknown. An isolated
// point is drawn as a short line.
func drawLine(points []point, value func(point) (float64, bool), top float64) string {
	var b strings.Builder
	pen := false
	for i, p := range points {
		v, ok := value(p)
		if !ok {
			// A part without a sample is bridged, because a busy peer may sample late.
			pen = pen && !p.there && i+1 < len(points)
			continue
		}
		x, y := curveLeft+i*curveUnits, curveTop+curvePlane-v/top*curvePlane
		if !pen {
			fmt.Fprintf(&b, "M%d %.1fh1", x, y)
			pen = true
			continue
		}
		fmt.Fprintf(&b, "L%d %.1f", x+1, y)
	}
	return b.String()
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

// rowsOf returns the table rows of the hour.
func rowsOf(samples []history.Sample, now time.Time) []hourRow {
	var all []hourRow
	for from := now.Add(-hourPart); from.After(now.Add(-curveSpan - hourPart/2)); from = from.Add(-hourPart) {
		var p point
		var leaders []string
		for _, s := range samples {
			if s.At.Before(from) || !s.At.Before(from.Add(hourPart)) && from.Add(hourPart) != now {
				continue
			}
			p.add(s)
			if s.Leader != "" && (len(leaders) == 0 || leaders[len(leaders)-1] != s.Leader) {
				leaders = append(leaders, s.Leader)
			}
		}
		if !p.there {
			break
		}
		begin, end := int(now.Sub(from)/time.Minute), int((now.Sub(from)-hourPart)/time.Minute)
		r := hourRow{
			From:    fmt.Sprintf("%d to %d min ago", begin, end),
			Leaders: cmp.Or(strings.Join(leaders, ", then "), "none"),
		}
		if p.n > 0 {
			r.Heartbeats = perSecond(p.heartbeats / p.n)
		}
		if p.known {
			r.Commands = perSecond(p.commands / p.rated)
			r.P50, r.P99 = InTime(time.Duration(p.p50)), InTime(time.Duration(p.p99))
		}
		all = append(all, r)
	}
	return slices.Clip(all)
}
