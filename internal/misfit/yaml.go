package misfit

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
	{"control characters are not allowed", notText},
}

// notText is the sentence for bytes that are no text.
const notText = "this is not text: is it another file, or a compressed one?"

// yamlError matches the errors of the YAML parser.
var yamlError = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

// YAML returns the line of an error of the YAML parser, and its sentence without the words of the
// parser. ok is false for another error. The parser counts lines from 0 and the scanner from 1;
// neither names the first line.
func YAML(err error) (line int, sentence string, ok bool) {
	m := yamlError.FindStringSubmatch(err.Error())
	if m == nil {
		return 0, "", false
	}
	line, _ = strconv.Atoi(m[1]) // "" is 0
	if line == 0 || strings.HasPrefix(m[2], "did not find expected ") {
		line++
	}
	for _, s := range syntax {
		if m[2] == s.yaml {
			return line, s.sentence, true
		}
	}
	if strings.Contains(m[2], "UTF-8") || strings.Contains(m[2], "UTF-16") || strings.Contains(m[2], "Unicode") {
		return line, notText, true
	}
	return line, m[2], true
}
