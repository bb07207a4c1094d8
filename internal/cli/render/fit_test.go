package render

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestFit(t *testing.T) {
	build := func() *Table {
		tab := NewTable("MACHINE", "STATE", "POOL", "AGENT", "WHY")
		tab.Row("m-1", "IN_SERVICE", "", "", strings.Repeat("long reason ", 10))
		tab.Row("m-2", "READY", "gpu", "", "")
		return tab
	}
	for _, tt := range []struct {
		width      int
		agent, cut bool // shows the column without a value; cuts the reason
	}{
		{300, true, false}, {60, false, true}, {80, false, true}, {20, false, false},
	} {
		tab := build()
		tab.Fit(tt.width)
		got := tab.String()
		if has := strings.Contains(got, "AGENT"); has != tt.agent {
			t.Errorf("width %d: got column AGENT: %v, want %v", tt.width, has, tt.agent)
		}
		if has := strings.Contains(got, "…"); has != tt.cut {
			t.Errorf("width %d: got a cut text: %v, want %v", tt.width, has, tt.cut)
		}
		for line := range strings.Lines(got) {
			n := utf8.RuneCountInString(strings.TrimRight(line, "\n"))
			if tt.cut && n > tt.width {
				t.Errorf("width %d: got %d columns: %q", tt.width, n, line)
			}
		}
		if !strings.Contains(got, "gpu") {
			t.Errorf("width %d: lost the column POOL, which has a value:\n%s", tt.width, got)
		}
	}
}

// TestRowWithFewCells checks that missing cells are shown as "-", at any width.
func TestRowWithFewCells(t *testing.T) {
	for _, width := range []int{80, 10} {
		tab := NewTable("MACHINE", "STATE", "POOL")
		tab.Row("m-1")
		tab.Row("m-2", "READY", "gpu")
		tab.Fit(width)
		if got := strings.Fields(strings.Split(tab.String(), "\n")[1]); len(got) != 3 || got[2] != "-" {
			t.Errorf("width %d: got row %v, want m-1 - -", width, got)
		}
	}
}
