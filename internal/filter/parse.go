package filter

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// MaxLength bounds the length of a filter, in bytes.
	MaxLength = 8 << 10
	maxDepth  = 64 // of parentheses
)

// The comparison operators.
const (
	opEqual        = "="
	opNotEqual     = "!="
	opLess         = "<"
	opLessEqual    = "<="
	opGreater      = ">"
	opGreaterEqual = ">="
	opHas          = ":"
)

// Error is a syntax or field error in a filter, with its position.
type Error struct {
	At  int // byte, from 0
	Msg string
}

// Error returns the message and the position, counted from 1.
func (e *Error) Error() string { return fmt.Sprintf("at character %d: %s", e.At+1, e.Msg) }

// parser is a recursive descent parser. It splits words differently on the two sides of an
// operator, because unquoted values such as m-1 or 10.0.0.1:443 contain characters that
// separate names.
type parser struct {
	text   string
	at     int
	depth  int
	schema *Schema
}

func (p *parser) errorf(at int, format string, args ...any) error {
	return &Error{At: utf8.RuneCountInString(p.text[:min(at, len(p.text))]), Msg: fmt.Sprintf(format, args...)}
}

func (p *parser) blanks() {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
}

func (p *parser) done() bool { return p.at >= len(p.text) }

// keyword consumes word if it is there as a separate token.
func (p *parser) keyword(word string) bool {
	rest, ok := strings.CutPrefix(p.text[p.at:], word)
	if !ok || rest != "" && strings.IndexByte(" \t\r\n()\"'", rest[0]) < 0 {
		return false
	}
	p.at += len(word)
	return true
}

// expression = sequence {"AND" sequence}
func (p *parser) expression() (node, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, p.errorf(p.at, "parentheses are nested more than %d deep", maxDepth)
	}
	defer func() { p.depth-- }()
	var all and
	for {
		n, err := p.factor()
		if err != nil {
			return nil, err
		}
		all = append(all, n)
		p.blanks()
		if p.done() || p.text[p.at] == ')' {
			return all, nil
		}
		p.keyword("AND") // AND between two comparisons is optional
	}
}

// factor = term {"OR" term}
func (p *parser) factor() (node, error) {
	var some or
	for {
		n, err := p.term()
		if err != nil {
			return nil, err
		}
		some = append(some, n)
		p.blanks()
		if !p.keyword("OR") {
			return some, nil
		}
	}
}

// term = ["NOT" | "-"] ("(" expression ")" | comparison)
func (p *parser) term() (node, error) {
	p.blanks()
	negated := p.keyword("NOT")
	if !negated && !p.done() && p.text[p.at] == '-' {
		p.at++
		negated = true
	}
	p.blanks()
	var n node
	var err error
	if !p.done() && p.text[p.at] == '(' {
		n, err = p.group()
	} else {
		n, err = p.comparison()
	}
	if err == nil && negated {
		n = not{n}
	}
	return n, err
}

func (p *parser) group() (node, error) {
	open := p.at
	p.at++
	n, err := p.expression()
	if err != nil {
		return nil, err
	}
	if p.done() || p.text[p.at] != ')' {
		return nil, p.errorf(open, "parenthesis is not closed")
	}
	p.at++
	return n, nil
}

func (p *parser) comparison() (node, error) {
	start := p.at
	path, err := p.path()
	if err != nil {
		return nil, err
	}
	name := p.text[start:p.at]
	p.blanks()
	op := p.operator()
	if op == "" {
		return nil, p.errorf(start, "%s", missingOperator(name, p.text[p.at:]))
	}
	p.blanks()
	at := p.at
	value, err := p.value()
	if err != nil {
		return nil, err
	}
	f, err := p.schema.field(path)
	if err != nil {
		return nil, p.errorf(start, "%s", err)
	}
	c, err := newComparison(f, op, value)
	if err != nil {
		return nil, p.errorf(at, "%s", err)
	}
	return c, nil
}

func missingOperator(name, rest string) string {
	switch {
	case strings.HasPrefix(rest, "("):
		return fmt.Sprintf("%s(…): there are no functions", name)
	case name == "and" || name == "or" || name == "not":
		return fmt.Sprintf("write %s in upper case", strings.ToUpper(name))
	}
	return fmt.Sprintf("%s is not a comparison: write one such as phase = READY", name)
}

// path = segment {"." segment}; a segment is a word or a quoted string.
func (p *parser) path() ([]string, error) {
	var path []string
	for {
		segment, err := p.word(" \t\r\n()\"',=<>!:.", "field")
		if err != nil {
			return nil, err
		}
		path = append(path, segment.text())
		if p.done() || p.text[p.at] != '.' {
			return path, nil
		}
		p.at++
	}
}

func (p *parser) operator() string {
	for _, op := range []string{opNotEqual, opLessEqual, opGreaterEqual, opEqual, opLess, opGreater, opHas} {
		if strings.HasPrefix(p.text[p.at:], op) {
			p.at += len(op)
			return op
		}
	}
	return ""
}

func (p *parser) value() (literal, error) {
	return p.word(" \t\r\n()\"',=<>!", "value")
}

// word reads a quoted string, or a word up to one of the stop characters.
func (p *parser) word(stops, kind string) (literal, error) {
	start := p.at
	if !p.done() && (p.text[p.at] == '"' || p.text[p.at] == '\'') {
		parts, err := p.quotedString()
		return literal{parts: parts, quoted: true}, err
	}
	for !p.done() && strings.IndexByte(stops, p.text[p.at]) < 0 {
		p.at++
	}
	switch text := p.text[start:p.at]; {
	case text != "":
		return literal{parts: strings.Split(text, "*")}, p.lookalike(start, text)
	case p.done():
		return literal{}, p.errorf(start, "a %s is missing at the end", kind)
	}
	r, _ := utf8.DecodeRuneInString(p.text[p.at:])
	return literal{}, p.errorf(start, "want a %s, not %q: quote text that contains such characters", kind, r)
}

// lookalike returns an error for the first character of a bare word that people cannot tell from a
// blank, from nothing, or from a quote. Text that is copied from a page has them.
func (p *parser) lookalike(start int, text string) error {
	for i, r := range text {
		switch {
		case unicode.In(r, unicode.Pi, unicode.Pf):
			return p.errorf(start+i, "%c is not a quote of this language: write \" or '", r)
		case !unicode.IsPrint(r):
			return p.errorf(start+i, "%q cannot be seen: remove it, or quote text that contains it", r)
		}
	}
	return nil
}

// quotedString reads a string in single or double quotes, and returns the texts between its
// wildcards. The escapes are those of Go and JSON, and \* for a star that is no wildcard.
func (p *parser) quotedString() ([]string, error) {
	start, quote := p.at, p.text[p.at]
	p.at++
	var parts []string
	var b strings.Builder
	for !p.done() {
		switch c := p.text[p.at]; {
		case c == quote:
			p.at++
			return append(parts, b.String()), nil
		case c == '*':
			parts = append(parts, b.String())
			b.Reset()
			p.at++
		case strings.HasPrefix(p.text[p.at:], `\*`):
			b.WriteByte('*')
			p.at += len(`\*`)
		case c != '\\':
			b.WriteByte(c)
			p.at++
		default:
			if err := p.escape(&b, quote); err != nil {
				return nil, err
			}
		}
	}
	return nil, p.errorf(start, "string is not closed")
}

// escape reads an escape of Go or JSON.
func (p *parser) escape(b *strings.Builder, quote byte) error {
	r, multibyte, tail, err := strconv.UnquoteChar(p.text[p.at:], quote)
	if err != nil {
		escape := p.text[p.at:min(p.at+2, len(p.text))]
		return p.errorf(p.at, "%q is not an escape: write \\\\ for a backslash", escape)
	}
	if r < utf8.RuneSelf || multibyte {
		b.WriteRune(r)
	} else {
		b.WriteByte(byte(r))
	}
	p.at = len(p.text) - len(tail)
	return nil
}
