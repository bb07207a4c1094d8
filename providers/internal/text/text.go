// Package text prepares foreign text, such as answers of devices and output of commands, for error
// messages and stages. It owns the form of such a text: valid UTF-8, one line, of limited length.
// It knows no secrets: the provider that reads a text hides them.
package text

import "strings"

// Line returns s as one line of valid UTF-8. Each run of white space becomes one space, and each
// run of invalid bytes one U+FFFD.
func Line(s string) string {
	return strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
}

// Clip returns the line of s, cut to at most n bytes at the boundary of a rune. The ellipsis after
// the cut does not count.
func Clip(s string, n int) string {
	s = Line(s)
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "") + "…"
	}
	return s
}
