package demo

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-metal/holdfast/internal/cli/render"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// maxRows is the maximum number of machines with a row each.
const maxRows = 24

// body draws the machines in at most room lines: a row each, in one or two columns, or a cell
// each if rows do not fit.
func body(v view, width, room int, g glyphs) []render.Line {
	n := len(v.Machines)
	switch {
	case n > maxRows:
	case n <= room:
		lines := make([]render.Line, n)
		for i, m := range v.Machines {
			lines[i] = row(v, m, width, g)
		}
		return lines
	case (n+1)/2 <= room && width >= 72:
		lines := make([]render.Line, (n+1)/2)
		half := (width - 2) / 2
		for i := range lines {
			lines[i] = row(v, v.Machines[i], half, g)
			if j := i + len(lines); j < n {
				lines[i] = append(append(pad(lines[i], half), render.T("  ", render.Plain)),
					row(v, v.Machines[j], half, g)...)
			}
		}
		return lines
	}
	return crowd(v, width, room, g)
}

// row draws one machine: its id, a bar of its steps, the current step and a note.
func row(v view, m machineView, width int, g glyphs) render.Line {
	cell := max(1, min(3, (width-36)/max(len(v.Steps), 1)))
	l := render.Line{render.T(m.ID+"  ", render.Plain)}
	for i := range v.Steps {
		l = append(l, segment(m, i, cell, g))
	}
	note, style := note(m)
	l = append(l, render.T("  ", render.Plain))
	if m.Step != "" && !m.failed() {
		step := m.Step
		if note != "" {
			if width >= 60 {
				step = fmt.Sprintf("%-*s", longest(v.Steps), step)
			}
			step += "  "
		}
		l = append(l, render.T(step, render.Plain))
	}
	return cut(append(l, render.T(note, style)), width, g)
}

// longest returns the number of columns of the longest text.
func longest(all []string) int {
	n := 0
	for _, s := range all {
		n = max(n, utf8.RuneCountInString(s))
	}
	return n
}

// segment draws one step of a machine's bar.
func segment(m machineView, step, size int, g glyphs) render.Text {
	switch {
	case step < m.Done:
		return render.T(strings.Repeat(g.done, size), render.Green)
	case step == m.Done && m.failed():
		return render.T(g.cross+strings.Repeat(g.rest, size-1), render.Red)
	case step == m.Done && m.Phase == holdfastv1.Run_RUNNING:
		style := render.Cyan
		if m.Attempt > 1 || m.Failure != "" {
			style = render.Yellow
		}
		n := size / 2
		return render.T(strings.Repeat(g.done, n)+g.head+strings.Repeat(g.rest, size-n-1), style)
	}
	return render.T(strings.Repeat(g.rest, size), render.Faint)
}

// note returns the text after the name of the step, such as the reason of a retry.
func note(m machineView) (string, render.Style) {
	switch {
	case m.Phase == holdfastv1.Run_SUCCEEDED:
		return "in service after " + seconds(m.Took), render.Green
	case m.failed():
		return strings.ToLower(m.Phase.String()) + " at " + m.Step + ": " + m.Error, render.Red
	case m.Phase == holdfastv1.Run_PENDING:
		return "queued", render.Faint
	case m.Failure != "":
		return "retry: " + m.Failure, render.Yellow
	case m.Adopted:
		return "adopted", render.Cyan
	case m.Attempt > 1:
		return fmt.Sprintf("attempt %d", m.Attempt), render.Yellow
	}
	return "", render.Plain
}

// crowd draws many machines: the number at each step, if there is room, and a cell for each
// machine. If there are more machines than cells, a cell shows the slowest machine of a group.
func crowd(v view, width, room int, g glyphs) []render.Line {
	var lines []render.Line
	cells := (len(v.Machines) + width - 1) / width
	if bars := len(v.Steps) + 2; len(v.Steps) > 0 && room >= bars+1+min(cells, 3) {
		lines = append(byStep(v, width, g), nil)
	}
	cells = max(min(cells, room-len(lines)), 1)
	each := (len(v.Machines) + cells*width - 1) / (cells * width)
	var l render.Line
	n := 0
	for group := range slices.Chunk(v.Machines, each) {
		sign, style := cellOf(v, group, g)
		if k := len(l); k > 0 && l[k-1].Style == style {
			l[k-1].Value += sign
		} else {
			l = append(l, render.T(sign, style))
		}
		if n++; n == width {
			lines, l, n = append(lines, l), nil, 0
		}
	}
	if n > 0 {
		lines = append(lines, l)
	}
	return lines
}

// cellOf draws the slowest machine of a group. A failed one counts as the slowest.
func cellOf(v view, group []machineView, g glyphs) (string, render.Style) {
	progress := func(m machineView) int {
		if m.failed() {
			return -1
		}
		return m.Done
	}
	m := slices.MinFunc(group, func(a, b machineView) int { return progress(a) - progress(b) })
	switch {
	case m.failed():
		return g.cross, render.Red
	case m.Phase == holdfastv1.Run_SUCCEEDED:
		return g.full, render.Green
	}
	sign := g.heat[min(m.Done*len(g.heat)/max(len(v.Steps), 1), len(g.heat)-1)]
	switch {
	case m.Phase != holdfastv1.Run_RUNNING:
		return sign, render.Faint
	case m.Attempt > 1 || m.Failure != "":
		return sign, render.Yellow
	}
	return sign, render.Cyan
}

// byStep counts the machines at each step.
func byStep(v view, width int, g glyphs) []render.Line {
	count := make([]int, len(v.Steps)+2) // not begun, at each step, in service
	for _, m := range v.Machines {
		switch {
		case m.Phase == holdfastv1.Run_SUCCEEDED:
			count[len(count)-1]++
		case m.Phase == holdfastv1.Run_RUNNING || m.failed():
			count[1+min(m.Done, len(v.Steps)-1)]++
		default:
			count[0]++
		}
	}
	names := append(append([]string{"waiting"}, v.Steps...), "in service")
	size := min(40, width-longest(names)-10)
	lines := make([]render.Line, len(names))
	for i, name := range names {
		style := render.Cyan
		switch i {
		case 0:
			style = render.Faint
		case len(names) - 1:
			style = render.Green
		}
		l := render.Line{render.T(fmt.Sprintf("%-*s %5d ", longest(names), name, count[i]), render.Plain)}
		if size > 0 && count[i] > 0 {
			l = append(l, render.T(strings.Repeat(g.done, max(1, size*count[i]/len(v.Machines))), style))
		}
		lines[i] = l
	}
	return lines
}

// columns counts the columns of a line.
func columns(l render.Line) int {
	n := 0
	for _, t := range l {
		n += utf8.RuneCountInString(t.Value)
	}
	return n
}

// pad fills a line up to a width.
func pad(l render.Line, width int) render.Line {
	if n := columns(l); n < width {
		return append(l, render.T(strings.Repeat(" ", width-n), render.Plain))
	}
	return l
}

// cut shortens a line to a width.
func cut(l render.Line, width int, g glyphs) render.Line {
	if columns(l) <= width {
		return l
	}
	left := max(width-1, 0) // the last column has the sign of a cut
	var out render.Line
	for _, t := range l {
		n := utf8.RuneCountInString(t.Value)
		if n > left {
			return append(out, render.T(string([]rune(t.Value)[:left])+g.more, t.Style))
		}
		left -= n
		out = append(out, t)
	}
	return out
}
