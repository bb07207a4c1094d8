package demo

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/holdfast-metal/holdfast/internal/cli/render"
)

// console is where the demo writes: progress, and in the end a summary or a report.
type console struct {
	out, err io.Writer
	json     bool
	progress io.Writer
	size     func() (width, height int, ok bool) // of the terminal that progress goes to; ok is false if it is none
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
				return 80, 24, true // a terminal that does not say, as over a serial line
			}
			return width, height, true
		}
	}
	return c
}

// glyphsFor returns signs that the terminal can show, as its locale says. Most that say nothing can
// show all.
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

// display returns what shows progress: a picture on a terminal, lines elsewhere.
func (c *console) display() display {
	if _, _, ok := c.size(); ok {
		return &screen{console: c}
	}
	return &ticker{w: c.progress}
}

// print writes lines to where progress went. The terminal wraps what is too long.
func (c *console) print(lines ...render.Line) {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.Format(0, c.colour) + "\n")
	}
	_, _ = io.WriteString(c.progress, b.String()) // nobody is left to tell
}

// println writes lines that are to be copied.
func (c *console) println(lines ...string) {
	_, _ = fmt.Fprintln(c.progress, strings.Join(lines, "\n")) // nobody is left to tell
}
