package ui

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/server/ui/history"
)

// Histories is what this peer knows of the last hour (*history.History).
type Histories interface {
	// Samples are those that are kept, the oldest first.
	Samples() []history.Sample
	// Taken is how many were ever taken.
	Taken() uint64
}

// lastHour is the drawings of how busy the cluster was, and the same in words.
type lastHour struct {
	Curves []curve
	Rows   []hourRow // a part of the hour each, the newest first
}

// curve is one drawing.
type curve struct {
	ID, Title, Now, Label string
	Lines                 []curveLine
	Marks                 []curveMark // other leaders
	Levels                []curveMark // lines across, with what they stand for
	Width, Height         int
	Left, Top, Base       int // of the plane
}

// Before is where what stands to the left of the plane ends.
func (c curve) Before() int { return c.Left - 6 }

// Under is where what stands below the plane lies.
func (c curve) Under() int { return c.Base + 16 }

type curveLine struct{ Class, D, Name string }

type curveMark struct {
	At, Text    int
	Label, Long string
	End         bool // the label stands before it
}

// hourRow is a part of the hour in words.
type hourRow struct{ From, Leaders, Signs, Commands, Half, Most string }

// The size of a drawing, and of what it shows: an hour in parts of 15 seconds, as wide as two units
// each.
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

// point is what a drawing knows of a part of the hour.
type point struct {
	there, known                bool
	leader                      string
	signs, commands, half, most float64
	n, rated                    float64
}

// hourOf draws samples. Without any it is nil.
func hourOf(samples []history.Sample, now time.Time) *lastHour {
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
	h := &lastHour{Rows: rowsOf(samples, now)}
	marks := changes(points)
	last := samples[len(samples)-1]
	draw := func(id, title, now string, word func(float64) string, lines ...drawnLine) {
		h.Curves = append(h.Curves, drawCurve(curve{ID: id, Title: title, Now: now, Marks: marks}, points, word, lines))
	}
	draw("signs", "Heartbeats a second", perSecond(last.Signs), perSecond,
		drawnLine{"p-half", "heartbeats", func(p point) (float64, bool) { return p.signs / max(p.n, 1), p.leader != "" }})
	draw("commands", "Commands a second", perSecond(last.Commands), perSecond,
		drawnLine{"p-half", "commands", func(p point) (float64, bool) { return p.commands / max(p.rated, 1), p.known }})
	draw("commits", "How long a command takes", inTime(last.Half)+" / "+inTime(last.Most), func(v float64) string {
		if v == 0 {
			return "0"
		}
		return inTime(time.Duration(v))
	},
		drawnLine{"p-most", "99 in 100", func(p point) (float64, bool) { return p.most, p.most > 0 }},
		drawnLine{"p-half", "half", func(p point) (float64, bool) { return p.half, p.half > 0 }})
	return h
}

// add takes a sample into its part: the mean of rates, and the worst of times.
func (p *point) add(s history.Sample) {
	p.there, p.leader = true, s.Leader
	if s.Leader == "" {
		return
	}
	p.n, p.signs = p.n+1, p.signs+s.Signs
	if s.Known {
		p.known, p.rated, p.commands = true, p.rated+1, p.commands+s.Commands
		p.half, p.most = max(p.half, float64(s.Half)), max(p.most, float64(s.Most))
	}
}

// changes marks where another peer leads than before.
func changes(points []point) []curveMark {
	var all []curveMark
	before := ""
	for i, p := range points {
		if p.leader == "" {
			continue
		}
		if before != "" && p.leader != before {
			all = append(all, curveMark{At: curveLeft + i*curveUnits, End: i > len(points)*9/10, Label: p.leader, Long: p.leader + " leads from here on, " + before + " did before"})
		}
		before = p.leader
	}
	return all
}

// drawnLine is one of the lines of a drawing.
type drawnLine struct {
	class, name string
	value       func(point) (float64, bool)
}

func drawCurve(c curve, points []point, word func(float64) string, lines []drawnLine) curve {
	c.Width, c.Height, c.Left, c.Top, c.Base = curveWidth, curveTop+curvePlane+20, curveLeft, curveTop, curveTop+curvePlane
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
	c.Label = fmt.Sprintf("%s in the last hour: now %s, at most %s", c.Title, c.Now, word(most))
	for _, l := range lines {
		c.Lines = append(c.Lines, curveLine{Class: l.class, Name: l.name, D: drawLine(points, l.value, top)})
	}
	return c
}

// drawLine draws a line, with a gap where nothing is known. A point that stands alone is a short
// line.
func drawLine(points []point, value func(point) (float64, bool), top float64) string {
	var b strings.Builder
	pen := false
	for i, p := range points {
		v, ok := value(p)
		if !ok {
			pen = pen && !p.there && i+1 < len(points) // a part without a sample is bridged: the ticks of a busy peer come late
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

// round returns the least of 1, 2, 5, 10, … that is not less than v.
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

// rowsOf words the hour in parts.
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
		r := hourRow{From: fmt.Sprintf("%d to %d min ago", int(now.Sub(from)/time.Minute), int((now.Sub(from)-hourPart)/time.Minute)), Leaders: first(strings.Join(leaders, ", then "), "none")}
		if p.n > 0 {
			r.Signs = perSecond(p.signs / p.n)
		}
		if p.known {
			r.Commands, r.Half, r.Most = perSecond(p.commands/p.rated), inTime(time.Duration(p.half)), inTime(time.Duration(p.most))
		}
		all = append(all, r)
	}
	return slices.Clip(all)
}

// perSecond words a rate.
func perSecond(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 10:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0")
	}
	return count(int(v + .5))
}

// inTime words a short time; that of nothing is "-".
func inTime(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	switch {
	case d == 0:
		return "-"
	case ms < 10:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", ms), ".0") + " ms"
	case ms < 1000:
		return fmt.Sprintf("%.0f ms", ms)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", ms/1000), ".0") + " s"
}
