package app

import (
	"cmp"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-metal/holdfast/internal/cli/render"
)

// App is one run of the command line.
type App struct {
	Streams           // Out and Err are safe: see New
	raw     io.Writer // standard output, for text that is safe already and for bytes
	Globals Globals
	Root    *cobra.Command

	Completing bool // for a shell

	// Names has what lists the names of a resource, by the reason of the error of a name that does
	// not exist, without _NOT_FOUND.
	Names map[string]Completer
}

// New returns an app that writes no control character, terminal sequence or bidirectional mark
// of others to its terminal: what its commands print on Out and Err goes through render.Writer.
// Text with colors, of which render has cleaned each part, goes to Painted.
func New(s Streams) *App {
	a := &App{Streams: s, raw: s.Out}
	a.Out, a.Err = render.NewWriter(s.Out), render.NewWriter(s.Err)
	a.Size = func(w io.Writer) (int, int, bool) { return s.Size(render.Unwrap(w)) }
	return a
}

// Painted returns the writer for text that render has made from parts, on a terminal with colors.
func (a *App) Painted() io.Writer { return a.raw }

// Foreign returns the writer for bytes of a machine: as text, or raw.
func (a *App) Foreign(raw bool) io.Writer {
	if raw {
		return a.raw
	}
	return a.Out
}

// TimeoutGiven reports whether the command line has --timeout.
func (a *App) TimeoutGiven() bool { return a.global("timeout").Changed }

// global returns a global flag of the command line.
func (a *App) global(name string) *pflag.Flag {
	return cmp.Or(a.Root.PersistentFlags().Lookup(name), a.Root.Flags().Lookup(name))
}
