package text_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/holdfast-metal/holdfast/providers/internal/text"
)

func TestLine(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"nothing", "", ""},
		{"white space", " \t\r\n", ""},
		{"one line", "no media", "no media"},
		{"lines", " no\r\n\tmedia \n", "no media"},
		{"white space of Unicode", "no\u00a0\u2003media\u0085", "no media"},
		{"invalid bytes", "no \xff\xfe media", "no \uFFFD media"},
		{"invalid bytes on both sides of a space", "no \xff \xfe media", "no \uFFFD \uFFFD media"},
		{"truncated rune", "über"[:1], "\uFFFD"},
	} {
		if got := text.Line(tt.in); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestClip(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		n        int
		want     string
	}{
		{"nothing", "", 0, ""},
		{"shorter", "no", 3, "no"},
		{"as long", "no\n", 2, "no"},
		{"longer", "no media", 4, "no m…"},
		{"cut after a space", "no media", 3, "no …"},
		{"cut within a rune", "größe", 3, "gr…"},
		{"cut after a rune", "größe", 4, "grö…"},
		{"white space does not count", "no    media", 8, "no media"},
		{"no bytes", "no media", 0, "…"},
	} {
		if got := text.Clip(tt.in, tt.n); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// FuzzClip checks that any answer of a device becomes one line of valid UTF-8 of limited length.
// The order of replacing white space and invalid bytes does not matter.
func FuzzClip(f *testing.F) {
	f.Add("no\xff\u00a0\xfemedia\r\n", 4)
	f.Add("\xe3\x80 \x80", 10)
	f.Fuzz(func(t *testing.T, s string, n int) {
		n = max(0, min(n, 1000))
		got := text.Clip(s, n)
		if !utf8.ValidString(got) || len(got) > n+len("…") || strings.ContainsAny(got, "\n\r\t") {
			t.Errorf("%q, %d bytes: got %q", s, n, got)
		}
		other := strings.ToValidUTF8(strings.Join(strings.Fields(s), " "), "\uFFFD")
		if line := text.Line(s); line != other || line != text.Line(line) {
			t.Errorf("%q: got %q and %q, again %q", s, line, other, text.Line(line))
		}
	})
}
