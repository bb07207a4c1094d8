package render

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Line is a line of texts, one after the other.
type Line []Text

// Format cuts the line to the width (0: no limit) and writes it, in color or not.
func (l Line) Format(width int, color bool) string {
	var b strings.Builder
	left := width
	for _, t := range l {
		s := Clean(t.Value)
		if n := utf8.RuneCountInString(s); width > 0 && n > left {
			if left > 0 {
				b.WriteString(t.paint(string([]rune(s)[:left-1])+"…", color))
			}
			return b.String()
		} else if width > 0 {
			left -= n
		}
		b.WriteString(t.paint(s, color))
	}
	return b.String()
}

// Block is lines at the end of a terminal that are redrawn in place.
type Block struct {
	w     io.Writer
	color bool
	drawn int
}

// NewBlock returns an empty block on a terminal.
func NewBlock(w io.Writer, color bool) *Block { return &Block{w: w, color: color} }

// Draw replaces the block. The lines of above are written once, over it, and stay. Width and
// height are those of the terminal: a wrapped line or a scrolled block could not be redrawn.
func (b *Block) Draw(above, lines []Line, width, height int) error {
	var s strings.Builder
	if b.drawn > 0 {
		fmt.Fprintf(&s, "\x1b[%dA\r\x1b[J", b.drawn)
	}
	for _, l := range above {
		s.WriteString(l.Format(0, b.color) + "\n")
	}
	if room := height - 1; height > 0 && len(lines) > room {
		hidden := len(lines) - max(room-1, 0)
		lines = append(lines[:len(lines)-hidden:len(lines)-hidden],
			Line{T(fmt.Sprintf("… and %d more", hidden), Faint)})
	}
	for _, l := range lines {
		s.WriteString(l.Format(width, b.color) + "\n")
	}
	b.drawn = len(lines)
	_, err := io.WriteString(b.w, s.String())
	return err
}
