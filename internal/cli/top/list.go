package top

import (
	"slices"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/internal/cli/render"
)

// list is a table with its sort column, search and selected row. A row that the user moved to
// is selected by id and stays selected while others come and go. Before that, the first row is
// selected.
type list[T any] struct {
	columns  []column[T]
	id       func(T) string
	sort     int // column
	reversed bool
	search   string

	rows   []T // sorted, those that match
	cursor int
	chosen string
	held   bool // the user has moved to the row
	top    int  // first row shown
}

// set replaces the rows. group, if set, is compared before the sort column.
func (l *list[T]) set(all []T, group func(a, b T) int, now time.Time) {
	l.rows = l.rows[:0]
	want := strings.ToLower(l.search)
	for _, x := range all {
		if want == "" || l.holds(x, want, now) {
			l.rows = append(l.rows, x)
		}
	}
	order := l.columns[l.sort].order
	slices.SortStableFunc(l.rows, func(a, b T) int {
		if group != nil {
			if c := group(a, b); c != 0 {
				return c
			}
		}
		c := order(a, b)
		if l.reversed {
			c = -c
		}
		if c != 0 {
			return c
		}
		return strings.Compare(l.id(a), l.id(b))
	})
	if i := slices.IndexFunc(l.rows, func(x T) bool { return l.id(x) == l.chosen }); i >= 0 && l.held {
		l.cursor = i
	}
	l.move(0)
}

// holds reports whether a cell of the row contains the text.
func (l *list[T]) holds(x T, want string, now time.Time) bool {
	return slices.ContainsFunc(l.columns, func(c column[T]) bool {
		return strings.Contains(strings.ToLower(c.cell(x, now).Value), want)
	})
}

// move moves the selection up or down.
func (l *list[T]) move(n int) {
	l.cursor = max(min(l.cursor+n, len(l.rows)-1), 0)
	if n != 0 {
		l.held = l.cursor > 0
	}
	l.chosen = ""
	if len(l.rows) > 0 {
		l.chosen = l.id(l.rows[l.cursor])
	}
}

// sortNext switches to the next sortable column.
func (l *list[T]) sortNext() {
	for {
		l.sort = (l.sort + 1) % len(l.columns)
		if l.columns[l.sort].order != nil {
			l.reversed = false
			return
		}
	}
}

// selected returns the selected row.
func (l *list[T]) selected() (T, bool) {
	if l.cursor < len(l.rows) {
		return l.rows[l.cursor], true
	}
	var none T
	return none, false
}

// lines returns the header and as many rows as fit.
func (l *list[T]) lines(width, height int, now time.Time) []render.Line {
	head := line(l.columns, width, func(c column[T]) render.Text {
		name := c.name
		if c.name == l.columns[l.sort].name {
			name += map[bool]string{false: "↑", true: "↓"}[l.reversed]
		}
		return render.T(name, render.Bold)
	})
	lines := []render.Line{append(render.Line{plain("  ")}, head...)}
	room := max(height-1, 1)
	l.top = max(min(l.top, l.cursor, len(l.rows)-room), l.cursor-room+1, 0)
	for i := l.top; i < min(l.top+room, len(l.rows)); i++ {
		row := line(l.columns, width, func(c column[T]) render.Text { return c.cell(l.rows[i], now) })
		mark := plain("  ")
		if i == l.cursor {
			mark = render.T("▸ ", render.Bold)
			row[0].Style = render.Bold
		}
		lines = append(lines, append(render.Line{mark}, row...))
	}
	return lines
}
