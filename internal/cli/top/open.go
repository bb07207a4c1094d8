package top

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/progress"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
)

// openLines returns the live view of one run with its steps, or of one machine.
func (m *model) openLines() []render.Line {
	lines := m.machineLines()
	if r := m.runs.find(m.open); m.tab == tabRuns {
		lines = []render.Line{{plain(fmt.Sprintf("run %s has ended, and %d others since:", m.open, mostEnded))},
			command("holdfast run get " + m.open)}
		if r != nil {
			lines = progress.One(r, m.now())
			lines = append(lines, nil, pair("plan", r.GetPlanId()), pair("request", r.GetRequestId()),
				pair("started by", r.GetPrincipal()))
			if why := progress.Why(r, m.now()); why != "" {
				lines = append(lines, pair("now", why))
			}
			lines = append(lines, nil, command("holdfast run logs -f "+r.GetRunId()),
				command("holdfast machine why "+r.GetMachineId()))
			if !client.Finished(r) {
				lines = append(lines, command("holdfast run cancel "+r.GetRunId()))
			}
		}
	}
	m.scroll = min(m.scroll, max(len(lines)-(m.height-2), 0))
	lines = lines[m.scroll:]
	lines = lines[:min(len(lines), max(m.height-2, 0))]
	for len(lines) < m.height-1 {
		lines = append(lines, nil)
	}
	return append(lines, render.Line{render.T("esc back  ↑↓ scroll  q quit", render.Faint)})
}

// machineLines describes the problems of a machine.
func (m *model) machineLines() []render.Line {
	lines := []render.Line{{render.T(m.open, render.Bold)}}
	for _, i := range m.fleet.issues() {
		if i.Machine != m.open {
			continue
		}
		lines[0] = append(lines[0], plain("  "), render.State(i.State.String()), plain("  "), i.Urgency,
			plain("  "+i.Where))
		lines = append(lines, nil)
		for _, what := range i.What {
			lines = append(lines, render.Line{plain("  " + what)})
		}
		lines = append(lines, nil, pair("since", render.Ago(m.now(), i.Since)))
		if i.Run != "" {
			lines = append(lines, pair("run", i.Run))
		}
		return append(lines, nil, command("holdfast machine why "+m.open), command("holdfast machine history "+m.open))
	}
	return append(lines, nil, render.Line{plain("  nothing is wrong with it any more")})
}

func (f *Fleet) issues() []Issue {
	if f == nil {
		return nil
	}
	return f.Issues
}

func pair(name, value string) render.Line {
	value = cmp.Or(value, "-")
	return render.Line{render.T("  "+name+strings.Repeat(" ", max(12-len(name), 1)), render.Faint), plain(value)}
}

// command returns a command to copy, because the view itself changes nothing.
func command(s string) render.Line { return render.Line{render.T("  $ "+s, render.Cyan)} }
