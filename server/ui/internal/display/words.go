package display

import (
	"strings"
	"unicode"
)

// word is a part of a text: a command or words.
type word struct {
	Text string
	Code bool
}

// prose splits a text into words and commands, which are between backticks.
func prose(s string) []word {
	var all []word
	for i, part := range strings.Split(s, "`") {
		if part != "" {
			all = append(all, word{part, i%2 == 1})
		}
	}
	return all
}

// longWord is the length from which a word may be broken: it may be wider than a phone.
const longWord = 24

// token is a word of a command.
type token struct {
	Text  string
	Whole bool // must not be broken at its hyphens
}

// words splits a command into its words.
func words(s string) []token {
	var all []token
	for w := range strings.FieldsSeq(s) {
		all = append(all, token{w, len(w) < longWord && strings.Contains(w, "-")})
	}
	return all
}

// pieces splits a text at the places where a long word may be broken: after punctuation such as
// a slash, and before a capital letter within a name. Without long words it returns the text.
func pieces(s string) []string {
	var all []string
	from := 0
	for _, w := range wordsAt(s) {
		if w.end-w.begin < longWord {
			continue
		}
		was := rune(0)
		for i, r := range s[w.begin:w.end] {
			if at := w.begin + i; i > 0 && breaks(was, r) {
				all, from = append(all, s[from:at]), at
			}
			was = r
		}
	}
	return append(all, s[from:])
}

// breaks reports whether a word may be broken between two characters.
func breaks(a, b rune) bool {
	switch {
	case strings.ContainsRune("./_:;,?&=", a):
		return unicode.IsLetter(b) || unicode.IsDigit(b)
	case unicode.IsLower(a):
		return unicode.IsUpper(b)
	}
	return false
}

// place is the position of a word in a text.
type place struct{ begin, end int }

// wordsAt returns the positions of the words of a text.
func wordsAt(s string) []place {
	var all []place
	begin := -1
	for i, r := range s {
		switch space := unicode.IsSpace(r); {
		case space && begin >= 0:
			all, begin = append(all, place{begin, i}), -1
		case !space && begin < 0:
			begin = i
		}
	}
	if begin >= 0 {
		all = append(all, place{begin, len(s)})
	}
	return all
}
