package images

import "testing"

func TestContentRange(t *testing.T) {
	for _, tt := range []struct {
		in           string
		first, total int64
		ok           bool
	}{
		{"bytes 0-99/100", 0, 100, true},
		{"bytes 5-9/100", 5, 100, true},
		{"bytes 5-9/*", 5, -1, true},
		{"bytes */100", 100, 100, true},
		{"bytes */*", -1, -1, false},
		{"bytes 9-5/100", 0, 0, false},
		{"bytes 5-100/100", 0, 0, false},
		{"bytes -5/100", 0, 0, false},
		{"bytes 0-99", 0, 0, false},
		{"items 0-9/10", 0, 0, false},
		{"", 0, 0, false},
	} {
		first, total, ok := contentRange(tt.in)
		if ok != tt.ok || ok && (first != tt.first || total != tt.total) {
			t.Errorf("contentRange(%q): got %d, %d, %v, want %d, %d, %v", tt.in, first, total, ok, tt.first, tt.total, tt.ok)
		}
	}
}

func FuzzContentRange(f *testing.F) {
	for _, s := range []string{"bytes 0-99/100", "bytes */100", "bytes 5-9/*",
		"bytes 9223372036854775807-9223372036854775807/*", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		first, total, ok := contentRange(s)
		if ok && (first < 0 || total < -1 || total >= 0 && first > total) {
			t.Errorf("contentRange(%q): got %d, %d", s, first, total)
		}
	})
}
