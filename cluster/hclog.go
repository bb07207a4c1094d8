package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"time"

	"github.com/hashicorp/go-hclog"
)

// hclogger lets raft log through slog.
type hclogger struct {
	log     *slog.Logger
	name    string
	args    []any
	repeats *repeats // of all loggers that were made from one
}

var _ hclog.Logger = (*hclogger)(nil)

func newHCLog(l *slog.Logger, name string) *hclogger {
	return &hclogger{log: l.With("component", name), name: name, repeats: &repeats{}}
}

func slogLevel(l hclog.Level) slog.Level {
	switch l {
	case hclog.Warn:
		return slog.LevelWarn
	case hclog.Error:
		return slog.LevelError
	case hclog.Info, hclog.NoLevel:
		return slog.LevelInfo
	default:
		return slog.LevelDebug
	}
}

// Log implements hclog.Logger.
func (h *hclogger) Log(level hclog.Level, msg string, args ...any) {
	l := slogLevel(level)
	if !h.log.Enabled(context.Background(), l) {
		return
	}
	args = plain(args)
	l, held := h.repeats.weigh(l, h.name+msg+about(args), time.Now())
	if held > 0 {
		args = append(args, "like_it_before", held)
	}
	h.log.Log(context.Background(), l, msg, args...)
}

// about returns whom a line is about: the same trouble with another peer is another trouble.
func about(args []any) string {
	for i := 0; i+1 < len(args); i += 2 {
		switch args[i] {
		case "peer", "target", "id", "server-id", "from", "candidate":
			return fmt.Sprint(" ", args[i+1])
		}
	}
	return ""
}

// plain turns hclog's own value types into text.
func plain(args []any) []any {
	out := make([]any, len(args))
	for i, a := range args {
		if f, ok := a.(hclog.Format); ok && len(f) > 0 {
			if s, ok := f[0].(string); ok {
				a = fmt.Sprintf(s, f[1:]...)
			}
		}
		out[i] = a
	}
	return out
}

// Trace implements hclog.Logger, as do the methods below.
func (h *hclogger) Trace(msg string, args ...any) { h.Log(hclog.Trace, msg, args...) }

// Debug logs at debug level.
func (h *hclogger) Debug(msg string, args ...any) { h.Log(hclog.Debug, msg, args...) }

// Info logs at debug level too: raft's information is detail to operators, who read this package's
// own lines.
func (h *hclogger) Info(msg string, args ...any) { h.Log(hclog.Debug, msg, args...) }

// Warn logs at warning level.
func (h *hclogger) Warn(msg string, args ...any) { h.Log(hclog.Warn, msg, args...) }

// Error logs at error level.
func (h *hclogger) Error(msg string, args ...any) { h.Log(hclog.Error, msg, args...) }

// IsTrace reports whether trace lines are kept.
func (h *hclogger) IsTrace() bool { return h.enabled(slog.LevelDebug) }

// IsDebug reports whether debug lines are kept.
func (h *hclogger) IsDebug() bool { return h.enabled(slog.LevelDebug) }

// IsInfo reports whether info lines are kept.
func (h *hclogger) IsInfo() bool { return h.enabled(slog.LevelInfo) }

// IsWarn reports whether warnings are kept.
func (h *hclogger) IsWarn() bool { return h.enabled(slog.LevelWarn) }

// IsError reports whether errors are kept.
func (h *hclogger) IsError() bool { return h.enabled(slog.LevelError) }

func (h *hclogger) enabled(l slog.Level) bool { return h.log.Enabled(context.Background(), l) }

// ImpliedArgs returns what With has added.
func (h *hclogger) ImpliedArgs() []any { return h.args }

// With adds key-value pairs to every line.
func (h *hclogger) With(args ...any) hclog.Logger {
	return &hclogger{log: h.log.With(plain(args)...), name: h.name, args: append(h.args[:len(h.args):len(h.args)], args...), repeats: h.repeats}
}

// Name returns the component.
func (h *hclogger) Name() string { return h.name }

// Named adds to the component's name.
func (h *hclogger) Named(name string) hclog.Logger { return h.ResetNamed(h.name + "." + name) }

// ResetNamed replaces the component's name.
func (h *hclogger) ResetNamed(name string) hclog.Logger {
	return &hclogger{log: h.log, name: name, args: h.args, repeats: h.repeats}
}

// SetLevel does nothing: slog's handler decides.
func (h *hclogger) SetLevel(hclog.Level) {}

// GetLevel returns the lowest level that is kept.
func (h *hclogger) GetLevel() hclog.Level {
	if h.IsDebug() {
		return hclog.Debug
	}
	return hclog.Info
}

// StandardLogger returns a log.Logger that writes here.
func (h *hclogger) StandardLogger(opts *hclog.StandardLoggerOptions) *log.Logger {
	return log.New(h.StandardWriter(opts), "", 0)
}

// StandardWriter returns a writer whose lines are logged.
func (h *hclogger) StandardWriter(*hclog.StandardLoggerOptions) io.Writer {
	return lineWriter{log: h.log}
}

// lineWriter logs the lines of libraries that know only the standard logger. Their level stands in
// brackets.
type lineWriter struct{ log *slog.Logger }

// Write implements io.Writer.
func (w lineWriter) Write(p []byte) (int, error) {
	line, level := bytes.TrimSpace(p), slog.LevelDebug
	for _, l := range []struct {
		tag   string
		level slog.Level
	}{{"[DEBUG] ", slog.LevelDebug}, {"[INFO] ", slog.LevelDebug}, {"[WARN] ", slog.LevelWarn}, {"[ERR] ", slog.LevelError}} {
		if rest, ok := bytes.CutPrefix(line, []byte(l.tag)); ok {
			line, level = rest, l.level
			break
		}
	}
	w.log.Log(context.Background(), level, string(line))
	return len(p), nil
}
