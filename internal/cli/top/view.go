package top

import (
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/holdfast-metal/holdfast/internal/cli/render"
)

// View draws the screen at any size: long lines are cut, and the tables use the remaining
// lines.
func (m *model) View() tea.View {
	var b strings.Builder
	lines := m.lines()
	lines = lines[:min(len(lines), max(m.height, 1))]
	for i, l := range lines {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(l.Format(m.width, m.color))
	}
	v := tea.NewView(b.String())
	v.AltScreen, v.WindowTitle = true, "holdfast top"
	return v
}

// lines returns the lines of the whole screen.
func (m *model) lines() []render.Line {
	switch {
	case m.helpOpen:
		return help()
	case m.open != "":
		return m.openLines()
	}
	lines := append(m.head(), m.tabLine())
	if m.tab == tabIssues {
		lines = append(lines, m.issues.lines(m.width, m.room(), m.now())...)
	} else {
		lines = append(lines, m.runList.lines(m.width, m.room(), m.now())...)
	}
	if empty := m.empty(); empty != "" {
		lines = append(lines, render.Line{render.T("  "+empty, render.Faint)})
	}
	for len(lines) < m.height-1 {
		lines = append(lines, nil)
	}
	return append(lines[:max(m.height-1, 0)], m.footer())
}

// room returns the number of lines of a table, with its header.
func (m *model) room() int { return max(m.height-len(m.head())-2, 2) }

// empty returns the text for a table without rows.
func (m *model) empty() string {
	switch {
	case m.tab == tabIssues && len(m.issues.rows) > 0, m.tab == tabRuns && len(m.runList.rows) > 0:
		return ""
	case m.tab == tabIssues && m.issues.search != "", m.tab == tabRuns && m.runList.search != "":
		return "nothing matches: esc shows all"
	case m.tab == tabIssues && m.fleet == nil:
		return "the machines have not been counted yet"
	case m.tab == tabIssues:
		return "no machine has an issue"
	case m.watchErr != nil:
		return "not known: runs cannot be followed"
	}
	return "no run is active"
}

// tabLine names the tables and the search.
func (m *model) tabLine() render.Line {
	var l render.Line
	issues := "?"
	if m.fleet != nil {
		issues = fmt.Sprint(len(m.fleet.Issues))
	}
	for i, name := range []string{fmt.Sprintf("1 Runs %d", len(m.runs.active)), "2 Attention " + issues} {
		if tab(i) == m.tab {
			l = append(l, render.T("["+name+"]", render.Bold), plain("  "))
			continue
		}
		l = append(l, render.T(" "+name+" ", render.Faint), plain("  "))
	}
	search := m.runList.search
	if m.tab == tabIssues {
		search = m.issues.search
	}
	if m.typing {
		l = append(l, plain("  search: "+search+"█"))
	} else if search != "" {
		l = append(l, plain("  search: "+search), render.T("  (esc: all)", render.Faint))
	}
	if m.ended {
		l = append(l, render.T("  ended runs too", render.Faint))
	}
	if m.paused {
		l = append(l, render.T("  paused (p goes on)", render.Yellow))
	}
	return l
}

func (m *model) footer() render.Line {
	return render.Line{render.T("q quit  ↑↓ choose  enter open  tab table  s sort  r reverse  / search  e ended  p "+
		"pause  ? help", render.Faint)}
}

func help() []render.Line {
	lines := []render.Line{{render.T("holdfast top", render.Bold)}, nil}
	for _, k := range [][2]string{
		{"q, Ctrl-C", "quit"}, {"↑ ↓ k j", "choose a row"}, {"PgUp PgDn space", "a page up, down"}, {"Home End g G",
			"the first row, the last one"},
		{"enter", "open the run or the machine; esc goes back"}, {"tab, 1, 2",
			"runs, or the machines that somebody should look at"},
		{"s, r", "sort by the next column; the other way round"}, {"/",
			"search in all columns; enter keeps it, esc shows all"},
		{"e", "show the runs that have ended since the start too"}, {"p", "pause: the rows stay as they are"},
	} {
		lines = append(lines, render.Line{render.T(fmt.Sprintf("  %-18s", k[0]), render.Bold), plain(k[1])})
	}
	return append(lines, nil, render.Line{render.T("  any key goes back", render.Faint)})
}

// clock formats a time of day in the user's time zone.
func clock(t time.Time) string { return t.Local().Format("15:04:05") }
