package cli

import (
	"cmp"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-metal/holdfast/internal/cli/render"
)

// app is one run of the command line.
type app struct {
	Streams           // Out and Err are safe: see newApp
	raw     io.Writer // standard output, for text that is safe already and for bytes
	globals globals
	root    *cobra.Command

	completing bool // for a shell

	// names has what lists the names of a resource, by the reason of the error of a name that does
	// not exist, without _NOT_FOUND.
	names map[string]completer
}

// newApp returns an app that writes no control character, terminal sequence or bidirectional mark
// of others to its terminal: what its commands print on Out and Err goes through render.Writer.
// Text with colors, of which render has cleaned each part, goes to painted.
func newApp(s Streams) *app {
	a := &app{Streams: s, raw: s.Out}
	a.Out, a.Err = render.NewWriter(s.Out), render.NewWriter(s.Err)
	a.Size = func(w io.Writer) (int, int, bool) { return s.Size(render.Unwrap(w)) }
	return a
}

// painted returns the writer for text that render has made from parts, on a terminal with colors.
func (a *app) painted() io.Writer { return a.raw }

// foreign returns the writer for bytes of a machine: as text, or raw.
func (a *app) foreign(raw bool) io.Writer {
	if raw {
		return a.raw
	}
	return a.Out
}

// timeoutGiven reports whether the command line has --timeout.
func (a *app) timeoutGiven() bool { return a.global("timeout").Changed }

// global returns a global flag of the command line.
func (a *app) global(name string) *pflag.Flag {
	return cmp.Or(a.root.PersistentFlags().Lookup(name), a.root.Flags().Lookup(name))
}
