package render

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
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
		agent, cut bool // shows the column without a value; breaks the reason into lines
	}{
		{300, true, false}, {60, false, true}, {80, false, true}, {20, false, false},
	} {
		tab := build()
		tab.Fit(tt.width)
		got := tab.String()
		if has := strings.Contains(got, "AGENT"); has != tt.agent {
			t.Errorf("width %d: got column AGENT: %v, want %v", tt.width, has, tt.agent)
		}
		if lines := strings.Count(got, "\n"); lines > 3 != tt.cut {
			t.Errorf("width %d: got %d lines, broken texts: %v", tt.width, lines, tt.cut)
		}
		if n := strings.Count(got, "long"); n != 10 {
			t.Errorf("width %d: got %d words of the reason, want 10:\n%s", tt.width, n, got)
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

// TestFitKeepsTheCause checks that a narrow terminal shows the end of a text, and that a text of
// many lines is cut.
func TestFitKeepsTheCause(t *testing.T) {
	tab := NewTable("RUN", "WHY")
	tab.Row("run-1", "failed at set-netboot: boot_device of m-3: BMC answered 500")
	tab.Row("run-2", strings.Repeat("x", 500))
	tab.Fit(31)
	want := `RUN    WHY
run-1  failed at set-netboot:
       boot_device of m-3: BMC
       answered 500
run-2  ` + strings.Repeat(strings.Repeat("x", 24)+"\n       ", 5) + strings.Repeat("x", 23) + "…\n"
	if diff := cmp.Diff(want, tab.String()); diff != "" {
		t.Errorf("table of 31 columns (-want +got):\n%s", diff)
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
