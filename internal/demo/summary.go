package demo

import (
	"fmt"
	"strings"

	"github.com/holdfast-metal/holdfast/internal/cli/render"
)

// summary returns the report as lines.
func summary(r *report, g glyphs) []render.Line {
	var phases []string
	for _, p := range r.phases() {
		phases = append(phases, fmt.Sprintf("%d %s", r.Runs[p], p))
	}
	line := func(label, format string, args ...any) render.Line {
		return render.Line{render.T(fmt.Sprintf("  %-9s", label), render.Faint),
			render.T(fmt.Sprintf(format, args...), render.Plain)}
	}
	lines := []render.Line{nil,
		line("runs", "%s of %s, with %s, in %.1f s", strings.Join(phases, ", "),
			plural(r.Machines, "machine", "machines"), plural(r.Retries, "retry", "retries"), r.Seconds),
	}
	if r.LeaderKilled {
		lines = append(lines,
			line("leader", "%s killed with SIGKILL at %s, now %s leads", r.KilledPeer, r.killAt, r.NewLeader),
			line("writes", "paused for %d ms", r.FailoverMS),
			line("attempts", "%d left open by the killed leader and adopted by the next", r.Adopted))
	}
	if r.Dir != "" {
		lines = append(lines, line("files", "%s", r.Dir))
	}
	lines = append(lines, nil, render.Line{render.T(fmt.Sprintf("  %-12s %18s %18s %12s %9s", "effect",
		"recorded", "seen by hardware", "duplicated", "missing"), render.Faint)})
	for _, e := range r.order {
		t := r.Effects[e]
		lines = append(lines, render.Line{render.T(fmt.Sprintf("  %-12s %18d %18d ", e, t.Asked, t.Seen), render.Plain),
			zero(t.Duplicated, 12), render.T(" ", render.Plain), zero(t.Missing, 9)})
	}
	lines = append(lines, nil)
	if r.OK {
		return append(lines, render.Line{render.T("  "+g.tick+
			" Every button pressed, every disk written: exactly as often as recorded.", render.Green)})
	}
	lines = append(lines, render.Line{render.T("  "+g.cross+" Problems:", render.Red)})
	for _, p := range r.Problems {
		lines = append(lines, render.Line{render.T("    "+p, render.Red)})
	}
	return lines
}

// zero returns a number that is red unless it is 0.
func zero(n, width int) render.Text {
	style := render.Green
	if n != 0 {
		style = render.Red
	}
	return render.T(fmt.Sprintf("%*d", width, n), style)
}
