package demo

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/holdfast-metal/holdfast/internal/cli/render"
)

// console writes the output of the demo: the progress, and a summary or a report at the end.
type console struct {
	out, err io.Writer
	json     bool
	progress io.Writer
	size     func() (width, height int, ok bool) // of the terminal of progress; ok is false without one
	colour   bool
	glyphs   glyphs
}

func newConsole(out, err io.Writer, json bool, getenv func(string) string) *console {
	c := &console{out: out, err: err, json: json, progress: out, glyphs: glyphsFor(getenv)}
	if json {
		c.progress = err
	}
	c.size = func() (int, int, bool) { return 0, 0, false }
	if f, ok := c.progress.(*os.File); ok && term.IsTerminal(int(f.Fd())) && getenv("TERM") != "dumb" {
		c.colour = getenv("NO_COLOR") == ""
		c.size = func() (int, int, bool) {
			width, height, err := term.GetSize(int(f.Fd()))
			if err != nil || width <= 0 || height <= 0 {
				return 80, 24, true // an unknown size, as over a serial line
			}
			return width, height, true
		}
	}
	return c
}

// glyphsFor returns signs that the terminal can show, by its locale. Without a locale it returns
// the Unicode signs, which most terminals can show.
func glyphsFor(getenv func(string) string) glyphs {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToLower(getenv(name)); v != "" {
			if strings.Contains(v, "utf-8") || strings.Contains(v, "utf8") {
				break
			}
			return asciiGlyphs()
		}
	}
	if getenv("TERM") == "linux" { // its font has few
		return asciiGlyphs()
	}
	return unicodeGlyphs()
}

// display returns a screen on a terminal, and a ticker otherwise.
func (c *console) display() display {
	if _, _, ok := c.size(); ok {
		return &screen{console: c}
	}
	return &ticker{w: c.progress}
}

// print writes lines to the writer of progress. The terminal wraps long ones.
func (c *console) print(lines ...render.Line) {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.Format(0, c.colour) + "\n")
	}
	_, _ = io.WriteString(c.progress, b.String()) // there is no other output for an error
}

// println writes lines without styles, to be copied.
func (c *console) println(lines ...string) {
	_, _ = fmt.Fprintln(c.progress, strings.Join(lines, "\n")) // there is no other output for an error
}
