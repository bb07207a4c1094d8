package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/holdfast-metal/holdfast/internal/cli/render"
)

// note prints a message, which is not data, to standard error.
func (a *app) note(format string, args ...any) {
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
func (h noteHandler) Handle(_ context.Context, r slog.Record) error {
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
	h.attrs = append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)
	return h
}

// WithGroup implements slog.Handler. The client's records have no groups.
func (h noteHandler) WithGroup(string) slog.Handler { return h }
