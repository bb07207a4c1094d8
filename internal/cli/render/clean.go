package render

import (
	"bytes"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// unsafe reports whether a terminal does something with a character other than showing it: control
// characters, also those of 8 bits, separators of lines, and marks that change the direction of the
// text after them.
func unsafe(r rune) bool {
	switch {
	case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r == 0x200e, r == 0x200f, r == 0x061c,
		r == 0x2028, r == 0x2029:
		return true
	}
	return unicode.IsControl(r)
}

// safe returns what to print instead of a character.
func safe(r rune) rune {
	if unsafe(r) {
		return utf8.RuneError
	}
	return r
}

// Clean makes foreign text safe for one line of a terminal: a host's message must not move the
// cursor, change colors, or turn the text around.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r == '\r' {
			return ' '
		}
		return safe(r)
	}, s)
}

// Escaped returns JSON in which unsafe characters are escaped. It is the same document, because
// they occur in strings only.
func Escaped(raw []byte) []byte {
	if !bytes.ContainsFunc(raw, func(r rune) bool { return r > 0x7e && unsafe(r) }) {
		return raw
	}
	const hex = "0123456789abcdef"
	var b []byte
	for _, r := range string(raw) {
		if r > 0x7e && unsafe(r) { // all have at most 16 bits
			b = append(b, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
			continue
		}
		b = utf8.AppendRune(b, r)
	}
	return b
}

// NewLogWriter returns a writer of lines of JSON, such as a log, that writes them Escaped.
func NewLogWriter(w io.Writer) io.Writer { return logWriter{w} }

type logWriter struct{ w io.Writer }

// Write implements io.Writer. It gets whole lines.
func (l logWriter) Write(p []byte) (int, error) {
	if _, err := l.w.Write(Escaped(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Writer writes text of others safely, whatever it contains. Line breaks and tabs stay. A carriage
// return is a line break, so that no text overwrites another. Terminal sequences are left out: with
// their parameters, and with the text of titles and links.
type Writer struct {
	w     io.Writer
	state state
	rest  []byte // the beginning of a character
	cr    bool   // the last byte was a carriage return
	seq   []rune // the sequence so far, from ESC
	vt    bool   // see NewScreen
}

// harmless reports whether NewScreen keeps a sequence.
func harmless(sequence string) bool { return regexp.MustCompile(screen).MatchString(sequence) }

// state is the position in a terminal sequence (ECMA-48).
type state int

const (
	text     state = iota
	escape         // after ESC
	control        // in a control sequence, until its final byte
	command        // in a string such as a title, until BEL or ST
	stopping       // after ESC in such a string
)

// maxSequence is the length at which a sequence that does not end counts as text, in bytes.
const maxSequence = 4096

// NewWriter returns a Writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// NewScreen returns a Writer that keeps what a full-screen program needs: moving the cursor,
// erasing, scrolling, colors and character sets. It leaves out titles, links, the clipboard,
// reports that the terminal would answer with input, and modes in which it would send input of its
// own.
func NewScreen(w io.Writer) *Writer { return &Writer{w: w, vt: true} }

// screen matches the sequences that NewScreen keeps.
const screen = `^\x1b(\[[0-9;]*[A-HJKLMPSTX@` + "`" + `adefgmrsu]|\[\??(1|3|4|6|7|12|25|47|1047|1048|1049)[hl]|[78DEM=>]|[()][A-Z0-9])$`

// Unwrap returns the writer below a Writer, or w itself.
func Unwrap(w io.Writer) io.Writer {
	if s, ok := w.(*Writer); ok {
		return s.w
	}
	return w
}

// Write implements io.Writer. It holds back an incomplete character.
func (s *Writer) Write(p []byte) (int, error) {
	in := slices.Concat(s.rest, p)
	s.rest = nil
	out := make([]byte, 0, len(in))
	for len(in) > 0 {
		if !utf8.FullRune(in) {
			s.rest = bytes.Clone(in)
			break
		}
		r, size := utf8.DecodeRune(in)
		in = in[size:]
		out = s.next(out, r)
	}
	if len(out) == 0 {
		return len(p), nil
	}
	if _, err := s.w.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// next appends what to print for a character.
func (s *Writer) next(out []byte, r rune) []byte {
	if s.state != text {
		if s.seq = append(s.seq, r); len(s.seq) > maxSequence {
			s.state = text
		} else if s.skip(r) {
			if s.vt && s.state == text && harmless(string(s.seq)) {
				out = append(out, string(s.seq)...)
			}
			return out
		}
	}
	if s.vt && (r == '\r' || r == '\b' || r == 0x0e || r == 0x0f) {
		return append(out, byte(r))
	}
	cr := s.cr
	s.cr = r == '\r'
	switch {
	case r == 0x1b:
		s.state, s.seq = escape, []rune{r}
		return out
	case r == 0x9b:
		s.state, s.seq = control, []rune{r}
		return out
	case r == 0x90 || r == 0x9d || r == 0x98 || r == 0x9e || r == 0x9f:
		s.state, s.seq = command, []rune{r}
		return out
	case r == '\n' && cr:
		return out
	case r == '\r':
		return append(out, '\n')
	case r == '\n' || r == '\t':
		return append(out, byte(r))
	}
	return utf8.AppendRune(out, safe(r))
}

// skip reports whether a character belongs to a sequence, and moves on in it. A line break ends
// each sequence, so that an unfinished one hides no lines.
func (s *Writer) skip(r rune) bool {
	if r == '\n' || r == '\r' {
		s.state = text
		return false
	}
	switch s.state {
	case escape:
		switch {
		case r == '[':
			s.state = control
		case strings.ContainsRune("]PX^_", r):
			s.state = command
		case r >= 0x20 && r <= 0x2f: // one more byte follows
		case r >= 0x30 && r <= 0x7e:
			s.state = text
		default:
			s.state = text
			return false
		}
	case control:
		if r == 0x1b {
			s.state = escape
		} else if r >= 0x40 {
			s.state = text
		}
	case command:
		switch r {
		case 0x07, 0x9c:
			s.state = text
		case 0x1b:
			s.state = stopping
		}
	case stopping:
		if s.state = text; r != '\\' {
			s.state = escape
			return s.skip(r)
		}
	case text:
		return false
	}
	return true
}
