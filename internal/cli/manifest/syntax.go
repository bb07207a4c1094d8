package manifest

import (
	"regexp"
	"strconv"
	"strings"
)

// syntax has a sentence with a remedy for each error of the YAML parser that is common in
// documents written by hand.
var syntax = []struct {
	yaml, sentence string
}{
	{"mapping values are not allowed in this context",
		`a key is not expected here: indent the keys of one mapping equally, and quote a value with ": " in it`},
	{"did not find expected key",
		"this line does not fit those above: indent the keys of one mapping equally, and close quotes"},
	{"did not find expected '-' indicator",
		`this list has a line that does not fit: begin its elements with "- " in one column, and indent their keys equally`},
	{"found character that cannot start any token",
		"a value cannot begin like this: indent with spaces, not tabs, and quote a value that begins with @, % or `"},
	{"found a tab character that violates indentation", "there is a tab in the indentation: indent with spaces"},
	{"could not find expected ':'", `this line has no colon: write it as "key: value"`},
	{"did not find expected ',' or ']'", "a list in [ ] is not closed, or a comma is missing"},
	{"did not find expected ',' or '}'", "a mapping in { } is not closed, or a comma is missing"},
	{"did not find expected node content", "a value is missing, or a bracket is not closed"},
	{"found unexpected end of stream", "a quoted text is not closed"},
	{"found unknown escape character", `a text in "" has an unknown escape: write it in ''`},
}

// yamlError matches the errors of the YAML parser.
var yamlError = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

// parsed converts an error of the YAML parser, or returns nil. The parser counts lines from 0 and
// the scanner from 1; neither names the first line.
func parsed(msg string) *Error {
	m := yamlError.FindStringSubmatch(msg)
	if m == nil {
		return nil
	}
	line, _ := strconv.Atoi(m[1]) // "" is 0
	if line == 0 || strings.HasPrefix(m[2], "did not find expected ") {
		line++
	}
	for _, s := range syntax {
		if m[2] == s.yaml {
			return &Error{Line: line, Msg: s.sentence}
		}
	}
	return &Error{Line: line, Msg: m[2]}
}
