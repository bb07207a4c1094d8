// Package lex checks and normalizes the texts of commands: names, MAC addresses and URLs. Its
// results depend on the text alone, and are the same with every release of Go. It must not
// know a rule of the record.
package lex

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Number returns a number of things: "1 machine", "2 machines". Answers use it. A text that Apply
// stores must not change, since older peers store it too.
func Number[N ~int | ~int32 | ~uint64](n N, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n) + " " + one + "s"
}

// Clip truncates a text to at most most bytes, at a rune boundary.
func Clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	const dots = "…"
	cut := most - len(dots)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + dots
}

// SingleLine reports whether a text has neither control characters nor invisible ones, so that it
// can be written into line-based scripts, and looks like no other text.
func SingleLine(s string) bool { return utf8.ValidString(s) && !strings.ContainsFunc(s, unseen) }

// Trimmed reports whether a text is a single line without space at its ends.
func Trimmed(s string) bool { return SingleLine(s) && strings.TrimSpace(s) == s }

// unseen reports whether a character is a control character, or a space without width, a mark of
// direction or a separator of lines. The list is fixed, because that of a release of Go is not.
func unseen(r rune) bool {
	for _, in := range [][2]rune{
		{0, 0x1f}, {0x7f, 0x9f}, {0xad, 0xad}, {0x34f, 0x34f}, {0x61c, 0x61c}, {0x115f, 0x1160}, {0x17b4, 0x17b5},
		{0x180b, 0x180e}, {0x200b, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f}, {0x3164, 0x3164}, {0xfeff, 0xfeff},
		{0xffa0, 0xffa0}, {0xfff0, 0xfffb}, {0xe0000, 0xe0fff},
	} {
		if in[0] <= r && r <= in[1] {
			return true
		}
	}
	return false
}

// ValidName reports whether a text is 1 to most letters, digits, '.', '_', '-' or ':', with a
// letter or digit among them. "." and ".." would not be names in a URL's path, and "-" is an option
// of programs.
func ValidName(s string, most int) bool {
	if s == "" || len(s) > most || strings.Trim(s, "._-:") == "" {
		return false
	}
	for _, r := range s {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("._-:", r):
		default:
			return false
		}
	}
	return true
}

// ValidPath reports whether a text is 1 to most bytes of names that are separated by '/', such as
// the id of a plan. Each of them is a part of a URL's path.
func ValidPath(s string, most int) bool {
	if len(s) > most {
		return false
	}
	for name := range strings.SplitSeq(s, "/") {
		if !ValidName(name, most) {
			return false
		}
	}
	return true
}

// maxIdent is the maximum length of an id of any kind: that of pools, providers, plans and secrets.
const maxIdent = 128

// tokenLen is the length of a token's value: 64 bytes in base64url.
const tokenLen = 86

// Ident returns an id if it is valid, or else "?". An invalid id may be anything, even a
// token in the wrong place, and audit events must not contain it. An id of a token's length and
// letters may be one.
func Ident(id string) string {
	likeToken := len(id) == tokenLen && !strings.ContainsAny(id, "./:")
	if !likeToken && ValidPath(id, maxIdent) {
		return id
	}
	return "?"
}

// Printable reports whether a text has 1 to most bytes of visible ASCII. It must not contain
// a comma, which separates names in certificates and on command lines.
func Printable(s string, most int) bool {
	if s == "" || len(s) > most {
		return false
	}
	for _, b := range []byte(s) {
		if b <= ' ' || b > '~' || b == ',' {
			return false
		}
	}
	return true
}
