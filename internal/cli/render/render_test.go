package render

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/internal/describe"
)

func TestTable(t *testing.T) {
	tab := NewTable("NAME", "STATE", "NOTE")
	tab.Row(T("a", Plain), State("FAILED"), T("line one\nline two", Plain))
	tab.Row(T("größer", Plain), T("", Plain), T("\x1b[2Jgone", Plain))
	want := strings.Join([]string{
		"NAME     STATE    NOTE",
		"a        FAILED   line one line two",
		"größer   -        \uFFFD[2Jgone",
		"",
	}, "\n")
	if diff := cmp.Diff(want, tab.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	if got := tab.Format(true, false); !strings.HasPrefix(got, "a        \x1b[31mFAILED\x1b[0m   line one") {
		t.Errorf("colored table: got %q, want FAILED in red and unchanged columns", got)
	}
}

func TestTimes(t *testing.T) {
	now := time.Date(2026, 1, 29, 15, 10, 0, 0, time.UTC)
	for _, tt := range []struct {
		ago        time.Duration
		want       string
		wantUntil  string
		wantLength string
	}{
		{0, "just now", "just now", "0s"},
		{4 * time.Second, "4s ago", "4s ago", "4s"},
		{62 * time.Second, "1m ago", "1m ago", "1m02s"},
		{3*time.Hour + 5*time.Minute, "3h ago", "3h ago", "3h05m"},
		{52 * time.Hour, "2d ago", "2d ago", "2d4h"},
		{-5 * time.Second, "just now", "in 5s", "0s"},
		{-2 * time.Minute, "in 2m", "in 2m", "0s"},
	} {
		if got := Ago(now, now.Add(-tt.ago)); got != tt.want {
			t.Errorf("Ago(%v): got %q, want %q", tt.ago, got, tt.want)
		}
		if got := Until(now, now.Add(-tt.ago)); got != tt.wantUntil {
			t.Errorf("Until(%v): got %q, want %q", tt.ago, got, tt.wantUntil)
		}
		if got := describe.Duration(tt.ago); got != tt.wantLength {
			t.Errorf("Duration(%v): got %q, want %q", tt.ago, got, tt.wantLength)
		}
	}
	if got := Ago(now, time.Time{}); got != "" {
		t.Errorf("Ago(zero): got %q, want none", got)
	}
}

func TestBlockIsRedrawn(t *testing.T) {
	var b strings.Builder
	block := NewBlock(&b, false)
	line := func(s string) Line { return Line{T(s, Plain)} }
	steps := []struct {
		above, lines  []Line
		width, height int
		want          string
	}{
		{nil, []Line{line("one"), line("two")}, 80, 24, "one\ntwo\n"},
		{nil, []Line{line("a long line")}, 6, 24, "\x1b[2A\r\x1b[Ja lon…\n"},
		{[]Line{line("stays")}, []Line{line("1"), line("2"), line("3"), line("4")}, 80, 4,
			"\x1b[1A\r\x1b[Jstays\n1\n2\n… and 2 more\n"},
		{nil, nil, 80, 24, "\x1b[3A\r\x1b[J"},
	}
	for i, s := range steps {
		b.Reset()
		if err := block.Draw(s.above, s.lines, s.width, s.height); err != nil {
			t.Fatal(err)
		}
		if b.String() != s.want {
			t.Errorf("draw %d: got %q, want %q", i, b.String(), s.want)
		}
	}
}
