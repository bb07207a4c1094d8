package chart

import (
	"fmt"
	"strconv"
	"strings"
)

// x returns the begin of a point of n.
func x(i, n int) string { return number(left + float64(plane*i)/float64(n)) }

// y returns the position of a value.
func y(v, scale float64) float64 { return base - v/scale*(base-top) }

// number formats a coordinate with at most one decimal.
func number(v float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
}

// path returns a line through the middle of all known points, with gaps where values are
// unknown. An isolated point is a small circle.
func (m measure) path(scale float64) string {
	var b strings.Builder
	n := len(m.line.Points)
	half := float64(plane) / float64(2*n)
	pen := false
	for i, p := range m.line.Points {
		if p.Periods == 0 {
			pen = false
			continue
		}
		at, v := number(left+float64(plane*i)/float64(n)+half), number(y(m.value(p), scale))
		if pen {
			fmt.Fprintf(&b, "L%s %s", at, v)
			continue
		}
		if pen = i+1 < n && m.line.Points[i+1].Periods > 0; !pen {
			fmt.Fprintf(&b, "M%s %sm-2 0a2 2 0 1 0 4 0a2 2 0 1 0-4 0", at, v)
			continue
		}
		fmt.Fprintf(&b, "M%s %s", at, v)
	}
	return b.String()
}

// areas returns the areas of the measures, one on the other, without those that are always 0.
func (p plot) areas(scale float64) []Curve {
	below := make([]float64, p.points())
	var all []Curve
	for _, m := range p.measures {
		above := make([]float64, len(below))
		grows := false
		for i, pt := range m.line.Points {
			above[i] = below[i]
			if pt.Periods > 0 {
				above[i] += m.value(pt)
			}
			grows = grows || above[i] > below[i]
		}
		if grows {
			all = append(all, Curve{m.class, m.name, area(m, below, above, scale)})
		}
		below = above
	}
	return all
}

// area returns the shape between two levels, in steps, for each stretch of known points.
func area(m measure, below, above []float64, scale float64) string {
	var b strings.Builder
	n := len(below)
	for from := 0; from < n; from++ {
		if m.line.Points[from].Periods == 0 {
			continue
		}
		to := from
		for to < n && m.line.Points[to].Periods > 0 {
			to++
		}
		fmt.Fprintf(&b, "M%s %s", x(from, n), number(y(below[from], scale)))
		steps(&b, above, from, to, scale, 1)
		steps(&b, below, from, to, scale, -1)
		b.WriteByte('Z')
		from = to
	}
	return b.String()
}

// steps draws the levels of the points from one until before another, forwards or, with
// direction -1, backwards.
func steps(b *strings.Builder, levels []float64, from, to int, scale float64, direction int) {
	n := len(levels)
	i, end := from, to
	if direction < 0 {
		i, end = to-1, from-1
	}
	for i != end {
		v := levels[i]
		fmt.Fprintf(b, "V%s", number(y(v, scale)))
		for i != end && levels[i] == v {
			i += direction
		}
		edge := i
		if direction < 0 {
			edge = i + 1
		}
		fmt.Fprintf(b, "H%s", x(edge, n))
	}
}
