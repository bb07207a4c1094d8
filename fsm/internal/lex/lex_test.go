package lex

import "testing"

func TestSingleLine(t *testing.T) {
	for s, want := range map[string]bool{
		"": true, "Serial 7": true, "Größe, 機": true, "🖥": true,
		"a\nb": false, "a\tb": false, "a\x00": false, "\x7f": false, "a\u0085b": false, "\u009b31m": false,
		"a\u200bb": false, "\u202eb": false, "\u2028": false, "\ufeffa": false, "a\u00adb": false, "a\u2066": false,
		"\U000e0041": false, "a\xffb": false,
	} {
		if got := SingleLine(s); got != want {
			t.Errorf("%q: got %v, want %v", s, got, want)
		}
	}
}
