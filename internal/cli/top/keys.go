package top

import (
	"unicode"

	tea "charm.land/bubbletea/v2"
)

// table is the part of a table that keys control.
type table interface {
	move(n int)
	sortNext()
	reverse()
	find(change func(string) string)
}

func (l *list[T]) reverse() { l.reversed = !l.reversed }

func (l *list[T]) find(change func(string) string) { l.search = change(l.search) }

// table returns the visible table.
func (m *model) table() table {
	if m.tab == tabIssues {
		return &m.issues
	}
	return &m.runList
}

// key handles a key, and reports whether it was to quit.
func (m *model) key(k tea.KeyPressMsg) (quit bool) {
	name := k.String()
	switch {
	case name == "ctrl+c":
		return true
	case m.typing:
		m.typed(k)
		return false
	case m.helpOpen:
		m.helpOpen = false
		return name == "q"
	case m.open != "":
		return m.openKey(name)
	}
	t, page := m.table(), max(m.room()-2, 1)
	switch name {
	case "q":
		return true
	case "up", "k":
		t.move(-1)
	case "down", "j":
		t.move(1)
	case "pgup", "ctrl+b":
		t.move(-page)
	case "pgdown", "ctrl+f", "space":
		t.move(page)
	case "home", "g":
		t.move(-1 << 30)
	case "end", "G", "shift+g":
		t.move(1 << 30)
	case "tab", "shift+tab", "left", "right":
		m.tab = (m.tab + 1) % tabs
	case "1":
		m.tab = tabRuns
	case "2":
		m.tab = tabIssues
	case "s":
		t.sortNext()
	case "r":
		t.reverse()
	case "/":
		m.typing = true
	case "esc":
		t.find(func(string) string { return "" })
	case "e":
		m.ended = !m.ended
	case "p":
		m.paused = !m.paused
	case "?", "h":
		m.helpOpen = true
	case "enter":
		m.openSelected()
	}
	return false
}

// typed handles a key while a search is typed.
func (m *model) typed(k tea.KeyPressMsg) {
	t := m.table()
	switch k.String() {
	case "enter":
		m.typing = false
	case "esc":
		m.typing = false
		t.find(func(string) string { return "" })
	case "ctrl+u":
		t.find(func(string) string { return "" })
	case "backspace":
		t.find(func(s string) string {
			r := []rune(s)
			return string(r[:max(len(r)-1, 0)])
		})
	default:
		for _, c := range k.Text {
			if unicode.IsPrint(c) {
				t.find(func(s string) string { return s + string(c) })
			}
		}
	}
}

// openSelected shows the selected row alone.
func (m *model) openSelected() {
	m.scroll = 0
	if m.tab == tabIssues {
		if i, ok := m.issues.selected(); ok {
			m.open = i.Machine
		}
		return
	}
	if r, ok := m.runList.selected(); ok {
		m.open = r.GetRunId()
	}
}

// openKey handles a key while a run or a machine is shown alone.
func (m *model) openKey(name string) (quit bool) {
	switch name {
	case "q":
		return true
	case "esc", "enter", "backspace", "left":
		m.open = ""
	case "up", "k":
		m.scroll = max(m.scroll-1, 0)
	case "down", "j":
		m.scroll++
	case "pgup":
		m.scroll = max(m.scroll-m.height, 0)
	case "pgdown", "space":
		m.scroll += m.height
	case "home", "g":
		m.scroll = 0
	}
	return false
}
