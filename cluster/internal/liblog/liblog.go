// Package liblog owns the way from the log lines of libraries to slog: those of Raft, its stores
// and its transport through hclog, and those of memberlist through the standard logger. Lines that
// repeat are held back. It must not decide what this peer's own packages log.
package liblog

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// hclogger is an hclog.Logger that writes to slog. The libraries only log and call With; the other
// methods are those of a null logger.
type hclogger struct {
	hclog.Logger

	log   *slog.Logger
	dedup *logDedup // shared by all loggers derived from one
}

// New returns a logger for the component of that name.
func New(l *slog.Logger, name string) hclog.Logger {
	return &hclogger{Logger: hclog.NewNullLogger(), log: l.With("component", name), dedup: &logDedup{}}
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
	l, suppressed := h.dedup.check(l, msg+about(args), time.Now())
	if suppressed > 0 {
		args = append(args, "like_it_before", suppressed)
	}
	h.log.Log(context.Background(), l, msg, args...)
}

// about returns the peer that a line is about, because equal lines about different peers
// are not duplicates.
func about(args []any) string {
	for i := 0; i+1 < len(args); i += 2 {
		switch args[i] {
		case "peer", "target", "id", "server-id", "from", "candidate":
			return fmt.Sprint(" ", args[i+1])
		}
	}
	return ""
}

// plain converts hclog's value types to text.
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

// Info also logs at debug level. Raft's information is a detail for operators, who read
// this peer's own lines.
func (h *hclogger) Info(msg string, args ...any) { h.Log(hclog.Debug, msg, args...) }

// Warn logs at warning level.
func (h *hclogger) Warn(msg string, args ...any) { h.Log(hclog.Warn, msg, args...) }

// Error logs at error level.
func (h *hclogger) Error(msg string, args ...any) { h.Log(hclog.Error, msg, args...) }

// With returns a logger that adds key-value pairs to every line.
func (h *hclogger) With(args ...any) hclog.Logger {
	return &hclogger{Logger: h.Logger, log: h.log.With(plain(args)...), dedup: h.dedup}
}

// Named returns the logger itself: the name of the component is enough.
func (h *hclogger) Named(string) hclog.Logger { return h }

// Lines returns a writer for libraries that know only the standard logger. It logs each line.
// The lines contain their level in brackets. Anybody who reaches the port of gossip can cause
// warnings and errors, so at most lineBurst of them are logged in lineWindow. The others are
// counted, and logged at debug level.
func Lines(l *slog.Logger) io.Writer { return &lineWriter{log: l} }

const (
	lineWindow = 10 * time.Second
	lineBurst  = 20
)

type lineWriter struct {
	log *slog.Logger

	mu         sync.Mutex
	since      time.Time // when the window began
	lines      int       // of warnings and errors in it
	suppressed int
}

// limit returns the level for a line, and how many lines the last window has suppressed.
func (w *lineWriter) limit(l slog.Level, now time.Time) (level slog.Level, suppressed int) {
	if l < slog.LevelWarn {
		return l, 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Sub(w.since) >= lineWindow {
		suppressed = w.suppressed
		w.since, w.lines, w.suppressed = now, 0, 0
	}
	if w.lines++; w.lines > lineBurst {
		w.suppressed++
		return slog.LevelDebug, suppressed
	}
	return l, suppressed
}

// Write implements io.Writer.
func (w *lineWriter) Write(p []byte) (int, error) {
	line, level := bytes.TrimSpace(p), slog.LevelDebug
	for _, l := range []struct {
		tag   string
		level slog.Level
	}{
		{"[DEBUG] ", slog.LevelDebug},
		{"[INFO] ", slog.LevelDebug},
		{"[WARN] ", slog.LevelWarn},
		{"[ERR] ", slog.LevelError},
	} {
		if rest, ok := bytes.CutPrefix(line, []byte(l.tag)); ok {
			line, level = rest, l.level
			break
		}
	}
	level, suppressed := w.limit(level, time.Now())
	if suppressed > 0 {
		w.log.Warn("more lines were suppressed", "lines", suppressed)
	}
	w.log.Log(context.Background(), level, string(line))
	return len(p), nil
}
