package cli

import (
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// Streams is the environment of the commands: files, variables, clock and terminal.
type Streams struct {
	// Version is that of this binary, for holdfast version. Empty: the version stamped by the
	// Go tool.
	Version string

	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string
	Now      func() time.Time
	// Size returns the size of the terminal w in columns and rows; ok is false if w is not a
	// terminal.
	Size func(w io.Writer) (width, height int, ok bool)
}

// OSStreams returns the streams of the process.
func OSStreams() Streams {
	return Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, Now: time.Now, Size: terminalSize}
}

func terminalSize(w io.Writer) (width, height int, ok bool) {
	f, isFile := w.(*os.File)
	if !isFile || !term.IsTerminal(int(f.Fd())) {
		return 0, 0, false
	}
	width, height, err := term.GetSize(int(f.Fd()))
	return width, height, err == nil && width > 0
}

// terminal reports whether a block can be redrawn on a writer.
func (a *app) terminal(w io.Writer) bool {
	_, _, ok := a.Size(w)
	return ok && a.Getenv("TERM") != "dumb"
}

// colour reports whether to color output to a writer (https://no-color.org).
func (a *app) colour(w io.Writer) bool {
	return a.terminal(w) && a.Getenv("NO_COLOR") == ""
}
