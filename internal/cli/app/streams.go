package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/holdfast-metal/holdfast/internal/cli/render"
)

// Streams is the environment of the commands: files, variables, clock and terminal.
type Streams struct {
	// Version is that of this binary. Empty: the version stamped by the Go tool.
	Version string

	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string
	Now      func() time.Time
	// Size returns the size of the terminal w in columns and rows; ok is false if w is not a
	// terminal.
	Size func(w io.Writer) (width, height int, ok bool)
	// Interactive reports whether a reader is a terminal, so that a question can be asked. nil:
	// never.
	Interactive func(r io.Reader) bool
}

// OSStreams returns the streams of the process.
func OSStreams() Streams {
	return Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, Now: time.Now, Size: terminalSize,
		Interactive: isTerminal}
}

func terminalSize(w io.Writer) (width, height int, ok bool) {
	f, isFile := w.(*os.File)
	if !isFile || !term.IsTerminal(int(f.Fd())) {
		return 0, 0, false
	}
	width, height, err := term.GetSize(int(f.Fd()))
	return width, height, err == nil && width > 0
}

// Terminal reports whether a block can be redrawn on a writer.
func (a *App) Terminal(w io.Writer) bool {
	_, _, ok := a.Size(w)
	return ok && a.Getenv("TERM") != "dumb"
}

// Color reports whether to color output to a writer (https://no-color.org).
func (a *App) Color(w io.Writer) bool {
	return a.Terminal(w) && a.Getenv("NO_COLOR") == ""
}

// Note prints a message, which is not data, to standard error.
func (a *App) Note(format string, args ...any) {
	_, _ = fmt.Fprintln(a.Err, render.Clean(fmt.Sprintf(format, args...)))
}

// noteHandler writes log records as notes.
type noteHandler struct {
	w     io.Writer
	level slog.Level
	attrs []slog.Attr
}

// Enabled implements slog.Handler.
func (h noteHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level }

// Handle implements slog.Handler.
func (h noteHandler) Handle(ctx context.Context, r slog.Record) error {
	long, _ := ctx.Value(longWaitKey{}).(*longWait)
	if note, why := waitingNote(r, long); note != "" && h.level >= slog.LevelWarn {
		if long.noted(why) {
			return nil
		}
		_, err := fmt.Fprintln(h.w, render.Clean(note))
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", map[bool]string{true: "note", false: "debug"}[r.Level >= slog.LevelWarn], r.Message)
	write := func(attr slog.Attr) bool {
		fmt.Fprintf(&b, " %s=%s", attr.Key, attr.Value)
		return true
	}
	for _, attr := range h.attrs {
		write(attr)
	}
	r.Attrs(write)
	_, err := fmt.Fprintln(h.w, render.Clean(b.String()))
	return err
}

// WithAttrs implements slog.Handler.
func (h noteHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.attrs = append(slices.Clip(h.attrs), attrs...)
	return h
}

// WithGroup implements slog.Handler. The client's records have no groups.
func (h noteHandler) WithGroup(string) slog.Handler { return h }

// isTerminal reports whether a reader is a terminal.
func isTerminal(r io.Reader) bool { return TerminalFile(r) != nil }

// TerminalFile returns the file of a reader that is a terminal, or nil.
func TerminalFile(r io.Reader) *os.File {
	if f, ok := r.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// longWait is the wait of a command that makes calls until one has the wanted answer. The time
// limit of a single call means nothing to the user then.
type longWait struct {
	end time.Time // zero: none

	mu  sync.Mutex
	why string // cause in the last note
}

// longWaitKey is the key of a *longWait in the context of its calls.
type longWaitKey struct{}

// WithLongWait returns the context of the calls of a command that waits until a time, or without
// limit if it is zero.
func WithLongWait(ctx context.Context, end time.Time) context.Context {
	return context.WithValue(ctx, longWaitKey{}, &longWait{end: end})
}

// noted reports whether the user knows the cause from the last note. A nil wait knows none.
func (l *longWait) noted(why string) bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.why
	l.why = why
	return was == why
}

// waitingNote returns the client's warning about a call that is being retried as a sentence, with
// its cause, and "" for any other record. The warning has the attributes addr, err and until. The
// call may be one of a longer wait.
func waitingNote(r slog.Record, long *longWait) (note, why string) {
	found := map[string]slog.Value{}
	r.Attrs(func(attr slog.Attr) bool {
		found[attr.Key] = attr.Value
		return true
	})
	until, ok := found["until"]
	if !ok || until.Kind() != slog.KindTime {
		return "", ""
	}
	end := until.Time()
	if long != nil {
		end = long.end
	}
	left := ""
	if !end.IsZero() {
		left = " for " + end.Sub(r.Time).Round(time.Second).String() + " more"
	}
	why = found["err"].String()
	if strings.HasSuffix(why, "connection refused") || strings.HasPrefix(why, "there is no host ") {
		why += ": " + connectionHint(why) // the address may be wrong: the remedy should not wait for the last try
	}
	return fmt.Sprintf("note: no answer from %s yet: %s; retrying%s (Ctrl-C ends it)", found["addr"], why, left), why
}
