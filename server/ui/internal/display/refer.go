package display

import "strings"

// refer returns a text that does not repeat the last error of a machine, which its page shows in
// one place.
func refer(text, known string) string {
	if known == "" {
		return text
	}
	return strings.ReplaceAll(text, known, "see last error")
}

// Marked returns a page without the marks that change the direction of the text after them, also
// beyond the value that has them: a sign stands for each. Hosts, BMCs and people chose the values.
func Marked(page []byte) []byte {
	return []byte(strings.Map(func(r rune) rune {
		switch {
		case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r == 0x200e, r == 0x200f, r == 0x061c:
			return '\uFFFD'
		}
		return r
	}, string(page)))
}
