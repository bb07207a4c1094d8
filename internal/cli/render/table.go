package render

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// gap separates two columns.
const gap = "   "

// Table is rows in aligned columns under a header.
type Table struct {
	header []string
	rows   [][]Text
	widths []int
	gap    string
	wrap   int // width of the last column, whose longer texts have several lines; 0: any
}

// NewTable returns a table with these columns.
func NewTable(header ...string) *Table {
	t := &Table{header: header, widths: make([]int, len(header)), gap: gap}
	for i, h := range header {
		t.widths[i] = utf8.RuneCountInString(h)
	}
	return t
}

// Row adds a row. A cell is a Text, or a value that is printed without a style. Cells beyond the
// last column are left out. An empty or missing cell is shown as "-", so that scripts can cut
// columns.
func (t *Table) Row(cells ...any) {
	row := make([]Text, len(t.header))
	for i := range row {
		var c Text
		if i < len(cells) {
			var ok bool
			if c, ok = cells[i].(Text); !ok {
				c.Value = fmt.Sprint(cells[i])
			}
		}
		c.Value = strings.TrimSpace(Clean(c.Value))
		if c.Value == "" {
			c = Text{"-", Faint}
		}
		row[i] = c
	}
	t.rows = append(t.rows, row)
}

// Len returns the number of rows.
func (t *Table) Len() int { return len(t.rows) }

// String returns the table without colors.
func (t *Table) String() string { return t.Format(false, true) }

// Format writes the table, in color or not, with its header or without.
func (t *Table) Format(color, header bool) string {
	rows := t.rows
	if header {
		head := make([]Text, len(t.header))
		for i, h := range t.header {
			head[i] = Text{h, Bold}
		}
		rows = append([][]Text{head}, rows...)
	}
	for _, row := range rows {
		for i, c := range row {
			if i == len(row)-1 && t.wrap > 0 {
				break
			}
			t.widths[i] = max(t.widths[i], utf8.RuneCountInString(c.Value))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		indent := 0
		for i, c := range row[:len(row)-1] {
			b.WriteString(c.paint(c.Value, color))
			b.WriteString(strings.Repeat(" ", t.widths[i]-utf8.RuneCountInString(c.Value)))
			b.WriteString(t.gap)
			indent += t.widths[i] + len(t.gap)
		}
		last := row[len(row)-1]
		for i, line := range wrapped(last.Value, t.wrap) {
			if i > 0 {
				b.WriteString(strings.Repeat(" ", indent))
			}
			b.WriteString(last.paint(line, color))
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// Clear removes the rows. The columns keep their width, so that later rows align with earlier
// ones.
func (t *Table) Clear() { t.rows = nil }
