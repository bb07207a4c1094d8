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
// then cuts the texts of the last column. The first column stays as it is.
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
	for _, row := range t.rows {
		if r := []rune(row[last].Value); len(r) > most {
			row[last].Value = strings.TrimRight(string(r[:most-1]), " ") + "…"
		}
	}
	t.widths[last] = most
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
