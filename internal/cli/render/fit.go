package render

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// narrow separates two columns of a table that is too wide for the terminal.
const narrow = "  "

// leastText is the least width to which the last column is cut.
const leastText = 20

// Fit makes a table as wide as the terminal at most, if it can: it drops columns without a value,
// then breaks the texts of the last column into lines. The first column stays as it is.
func (t *Table) Fit(width int) {
	if t.measure(gap) <= width {
		return
	}
	t.gap = narrow
	for i := len(t.header) - 1; i > 0 && len(t.rows) > 0; i-- {
		if !slices.ContainsFunc(t.rows, func(row []Text) bool { return row[i].Value != "-" }) {
			t.drop(i)
		}
	}
	last := len(t.header) - 1
	most := t.widths[last] + width - t.measure(narrow)
	if most >= t.widths[last] || most < leastText {
		return
	}
	t.widths[last], t.wrap = most, most
}

// mostLines is the number of lines of a text in the last column, after which it is cut.
const mostLines = 6

// wrapped returns the lines of a text that is at most so wide; 0: any. Words stay whole if they fit
// into a line.
func wrapped(text string, width int) []string {
	var lines []string
	rest := []rune(text)
	for width > 0 && len(rest) > width {
		if len(lines) == mostLines-1 {
			return append(lines, strings.TrimRight(string(rest[:width-1]), " ")+"…")
		}
		end, next := width, width
		for i := width; i > 0; i-- {
			if rest[i] == ' ' {
				end, next = i, i+1
				break
			}
		}
		lines = append(lines, string(rest[:end]))
		rest = rest[next:]
	}
	return append(lines, string(rest))
}

// drop removes a column.
func (t *Table) drop(i int) {
	t.header = slices.Delete(slices.Clone(t.header), i, i+1)
	t.widths = slices.Delete(t.widths, i, i+1)
	for j, row := range t.rows {
		t.rows[j] = slices.Delete(row, i, i+1)
	}
}

// measure updates the widths of the columns and returns that of the table.
func (t *Table) measure(gap string) int {
	width := len(gap) * (len(t.header) - 1)
	for i := range t.header {
		for _, row := range t.rows {
			t.widths[i] = max(t.widths[i], utf8.RuneCountInString(row[i].Value))
		}
		width += t.widths[i]
	}
	return width
}
