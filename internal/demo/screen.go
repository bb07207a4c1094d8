package demo

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Control sequences of terminals (ECMA-48, and DEC's private modes).
const (
	hideCursor = "\x1b[?25l"
	showCursor = "\x1b[?25h"
	clearLine  = "\x1b[K" // from the cursor on
	clearBelow = "\x1b[J"
)

// screen redraws a frame in place, below the existing output of the terminal.
type screen struct {
	*console
	drawn []int // the columns of each line
	last  string
}

func (s *screen) show(v view) error {
	// The frame already shows what quiet events report.
	v.Events = slices.DeleteFunc(slices.Clone(v.Events), func(e event) bool { return e.Quiet })
	size, height, _ := s.size()
	width := max(size-1, 1) // terminals differ in the last column
	var b strings.Builder
	var drawn []int
	for _, l := range frame(v, width, height, s.glyphs) {
		l = cut(l, width, s.glyphs)
		drawn = append(drawn, columns(l))
		b.WriteString(l.Format(0, s.colour) + clearLine + "\r\n")
	}
	picture := s.home(size, height) + b.String() + clearBelow
	if picture == s.last {
		return nil
	}
	_, err := io.WriteString(s.progress, picture) // in one write, against flicker
	s.last, s.drawn = picture, drawn
	return err
}

// home returns the control sequence that moves the cursor to the first line of the frame.
func (s *screen) home(width, height int) string {
	if s.drawn == nil {
		return hideCursor
	}
	up := 0
	for _, n := range s.drawn { // a terminal that became narrower has wrapped lines
		up += max(1, (n+width-1)/width)
	}
	return fmt.Sprintf("\x1b[%dA\r", min(up, max(height-1, 1)))
}

func (s *screen) end(v view) error {
	err := s.show(v)
	if _, e := io.WriteString(s.progress, showCursor); err == nil {
		err = e
	}
	return err
}
