package cli

import (
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// Streams is what the commands have of the world.
type Streams struct {
	// Version is this binary's, for holdfast version. Empty: as the Go tool stamped it.
	Version string

	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string
	Now      func() time.Time
	// Size is that of the terminal that w is, in columns and rows; ok is false if it is none.
	Size func(w io.Writer) (width, height int, ok bool)
}

// OSStreams is the process's own.
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

// terminal reports whether a writer is one that a block can be redrawn on.
func (a *app) terminal(w io.Writer) bool {
	_, _, ok := a.Size(w)
	return ok && a.Getenv("TERM") != "dumb"
}

// colour reports whether to colour what goes to a writer (https://no-color.org).
func (a *app) colour(w io.Writer) bool {
	return a.terminal(w) && a.Getenv("NO_COLOR") == ""
}
