package demo

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// What a terminal is told (ECMA-48, and DEC's private modes).
const (
	hideCursor = "\x1b[?25l"
	showCursor = "\x1b[?25h"
	clearLine  = "\x1b[K" // from the cursor on
	clearBelow = "\x1b[J"
)

// screen redraws a picture in place, below what the terminal shows already.
type screen struct {
	*console
	drawn []int // the columns of each line
	last  string
}

func (s *screen) show(v view) error {
	// Quiet events say what the picture shows anyway.
	v.Events = slices.DeleteFunc(slices.Clone(v.Events), func(e event) bool { return e.Quiet })
	size, height, _ := s.size()
	width := max(size-1, 1) // in the last column terminals differ
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
	_, err := io.WriteString(s.progress, picture) // at once, so that nothing flickers
	s.last, s.drawn = picture, drawn
	return err
}

// home goes back to where the picture begins.
func (s *screen) home(width, height int) string {
	if s.drawn == nil {
		return hideCursor
	}
	up := 0
	for _, n := range s.drawn { // a terminal that has become narrower has wrapped some
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
