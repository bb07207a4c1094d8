package demo

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-metal/holdfast/internal/cli/render"
)

// glyphs are the signs that a terminal can show, one column each.
type glyphs struct {
	done, head, rest    string // of a bar
	leader, peer, dead  string
	tick, cross, bullet string
	heat                []string // a machine's progress, from none to nearly all steps
	full                string   // all steps
	more                string   // the end of a cut line
}

func unicodeGlyphs() glyphs {
	return glyphs{done: "━", head: "╸", rest: "─", leader: "★", peer: "●", dead: "✗", tick: "✓", cross: "✗",
		bullet: "·",
		heat:   []string{"▁", "▂", "▃", "▄", "▅", "▆", "▇"}, full: "█", more: "…"}
}

func asciiGlyphs() glyphs {
	return glyphs{done: "=", head: ">", rest: "-", leader: "*", peer: "o", dead: "x", tick: "+", cross: "x",
		bullet: "-",
		heat:   []string{".", ":", "-", "=", "+", "o", "O"}, full: "#", more: "~"}
}

// Limits of a frame.
const (
	minWidth  = 20
	maxEvents = 8
)

// frame draws a view for a terminal of width columns and height rows. It returns fewer lines than
// height, because the cursor stays below them. Lines may be longer than width.
func frame(v view, width, height int, g glyphs) []render.Line {
	width = max(width, minWidth)
	room := max(height-1, 1)
	lines := []render.Line{title(v, g), peerLine(v, g), workLine(v, width, g)}
	if room < len(lines)+4 { // too low for machines
		if n := len(v.Events); n > 0 {
			lines = append(lines, eventLine(v.Events[n-1], g))
		}
		return lines[max(len(lines)-room, 0):]
	}
	events := min(len(v.Events), maxEvents)
	left := room - len(lines) - 2
	body := body(v, width, max(left-min(events, 4), 1), g)
	lines = append(append(append(lines, nil), body...), nil)
	for _, e := range v.Events[len(v.Events)-min(events, left-len(body)):] {
		lines = append(lines, eventLine(e, g))
	}
	return lines
}

func title(v view, g glyphs) render.Line {
	return render.Line{render.T("Holdfast demo", render.Bold),
		render.T(fmt.Sprintf("  %s  %s  %s  %s", plural(len(v.Machines), "machine", "machines"), g.bullet, planID,
			seconds(v.Elapsed)), render.Plain)}
}

func peerLine(v view, g glyphs) render.Line {
	l := render.Line{render.T("peers ", render.Faint)}
	leader, ready := false, len(v.Peers) > 0
	for _, p := range v.Peers {
		leader, ready = leader || p.Leader, ready && p.State != starting
		switch {
		case p.State == killed:
			l = append(l, render.T(fmt.Sprintf(" %s %s killed", g.dead, p.ID), render.Red))
		case p.Leader:
			l = append(l, render.T(fmt.Sprintf(" %s %s leader", g.leader, p.ID), render.Green))
		case p.State == starting:
			l = append(l, render.T(fmt.Sprintf(" %s %s starting", g.bullet, p.ID), render.Faint))
		default:
			l = append(l, render.T(fmt.Sprintf(" %s %s", g.peer, p.ID), render.Plain))
		}
		l = append(l, render.T(" ", render.Plain))
	}
	if ready && !leader {
		l = append(l, render.T(" no leader", render.Yellow))
	}
	return l
}

func workLine(v view, width int, g glyphs) render.Line {
	total := v.total()
	if total == 0 {
		return render.Line{render.T("steps  -", render.Faint)}
	}
	text := fmt.Sprintf("  %d/%d", v.Done, total)
	runs := fmt.Sprintf("  runs ended %d/%d", v.Ended, len(v.Machines))
	if n := v.retries(); n > 0 {
		runs += "  " + plural(n, "retry", "retries")
	}
	l := render.Line{render.T("steps  ", render.Faint)}
	size := min(40, width-7-utf8.RuneCountInString(text+runs))
	if size < 8 {
		size, runs = min(40, width-7-utf8.RuneCountInString(text)), ""
	}
	l = append(l, bar(v.Done, total, size, v.Done > 0 && v.Done < total, render.Green, g)...)
	return append(l, render.T(text, render.Bold), render.T(runs, render.Plain))
}

// bar draws the fraction part/whole in size columns.
func bar(part, whole, size int, head bool, style render.Style, g glyphs) render.Line {
	if size <= 0 {
		return nil
	}
	n := size * part / max(whole, 1)
	l := render.Line{render.T(strings.Repeat(g.done, n), style)}
	if head && n < size {
		l = append(l, render.T(g.head, style))
		n++
	}
	return append(l, render.T(strings.Repeat(g.rest, size-n), render.Faint))
}

func eventLine(e event, g glyphs) render.Line {
	style, sign := render.Plain, g.bullet
	switch e.Kind {
	case good:
		style, sign = render.Green, g.tick
	case warning:
		style, sign = render.Yellow, "!"
	case bad:
		style, sign = render.Red, g.cross
	}
	return render.Line{render.T(fmt.Sprintf("%7s ", seconds(e.At)), render.Faint), render.T(sign+" "+e.Text, style)}
}
