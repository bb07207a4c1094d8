package filter

import (
	"strconv"
	"strings"
)

// literal is a value as it was written. Between its parts are wildcards; a value without a wildcard
// has one part, in which a star is a star.
type literal struct {
	parts  []string
	quoted bool
}

func (l literal) text() string { return strings.Join(l.parts, "*") }

// fold converts the value to the form in which values are stored.
func (l literal) fold(f func(string) string) literal {
	folded := make([]string, len(l.parts))
	for i, part := range l.parts {
		folded[i] = f(part)
	}
	return literal{parts: folded, quoted: l.quoted}
}

// Quote returns the literal that means exactly this text: no character of it is a wildcard.
func Quote(text string) string { return strings.ReplaceAll(strconv.Quote(text), "*", `\*`) }

// Equals returns a filter that compares a field with a text. An empty text matches an unset field.
func Equals(field, text string) string { return field + " = " + Quote(text) }
