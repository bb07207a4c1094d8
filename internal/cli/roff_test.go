package cli

import "testing"

func TestRoff(t *testing.T) {
	for in, want := range map[string]string{
		"-o name":           `\-o name`,
		".hidden\n'quoted'": "\\&.hidden\n\\&'quoted'",
		`a\nb`:              `a\enb`,
	} {
		if got := roff(in); got != want {
			t.Errorf("roff(%q): got %q, want %q", in, got, want)
		}
	}
}
