package server

import (
	"bytes"
	"log/slog"

	"golang.org/x/time/rate"
)

// errorLines logs the errors of an HTTP server. Anybody who reaches the port can make a handshake
// fail, so one of these lines a minute is a warning, and the others are at debug level.
type errorLines struct {
	log    *slog.Logger
	seldom rate.Sometimes
}

// Write implements io.Writer.
func (w *errorLines) Write(line []byte) (int, error) {
	text := string(bytes.TrimSpace(line))
	say := w.log.Warn
	if bytes.Contains(line, []byte("handshake error")) || bytes.Contains(line, []byte("http2: server")) {
		say = w.log.Debug
		w.seldom.Do(func() { say = w.log.Warn })
	}
	say(text)
	return len(line), nil
}
