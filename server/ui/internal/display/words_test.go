package display

import (
	"strings"
	"testing"
	"time"
)

// TestPieces checks where long words may be broken, and that short ones are not.
func TestPieces(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", ""},
		{"HTTP/1.1 answered", "HTTP/1.1 answered"},
		{"holdfast.v1.MachineService/RegisterMachine", "holdfast.|v1.|Machine|Service/|Register|Machine"},
		{"HoldfastMachinesNeedIntervention", "Holdfast|Machines|Need|Intervention"},
		{"see https://hooks.example/in/0123456789?a=1 now", "see https://|hooks.|example/|in/|0123456789?|a=|1 now"},
		{"ääääääääääääÄÄÄÄ", "ääääääääääää|ÄÄÄÄ"},
	} {
		if got := strings.Join(pieces(tt.in), "|"); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.in, got, tt.want)
		}
	}
}

// TestWords checks which words of a command stay whole.
func TestWords(t *testing.T) {
	var got []string
	for _, w := range words("holdfast image add debian-13 --disk debian-13-genericcloud-amd64.raw") {
		if w.Whole {
			w.Text = "[" + w.Text + "]"
		}
		got = append(got, w.Text)
	}
	const want = "holdfast image add [debian-13] [--disk] debian-13-genericcloud-amd64.raw"
	if s := strings.Join(got, " "); s != want {
		t.Errorf("got %s, want %s", s, want)
	}
}

// TestDuration checks the units of short durations.
func TestDuration(t *testing.T) {
	for _, tt := range []struct {
		in   time.Duration
		want string
	}{
		{-time.Second, "0ms"}, {12345 * time.Microsecond, "12ms"}, {100 * time.Millisecond, "0.1s"},
		{9 * time.Second, "9.0s"}, {75 * time.Second, "1m15s"},
	} {
		if got := duration(tt.in); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.in, got, tt.want)
		}
	}
}
