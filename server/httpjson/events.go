package httpjson

import (
	"io"
	"net/http"
	"time"
)

// WriteTimeout is the time that a write to a stream may block on a slow client.
const WriteTimeout = 30 * time.Second

// Alive is a comment for a stream without events. The first one is due after FirstAlive, so that a
// client soon learns that its stream is open.
const (
	Alive      = ": alive\n\n"
	AliveEvery = 15 * time.Second
	FirstAlive = 200 * time.Millisecond
)

// Events is a response of server-sent events.
type Events struct {
	w     http.ResponseWriter
	c     *http.ResponseController
	begun bool // the header was sent
}

// NewEvents returns a stream that has not begun. Its End must be called.
func NewEvents(w http.ResponseWriter) *Events {
	return &Events{w: w, c: http.NewResponseController(w)}
}

// Begun reports whether anything was sent.
func (e *Events) Begun() bool { return e.begun }

// Write sends an event or a comment, and the header before the first one.
func (e *Events) Write(text string) error {
	if !e.begun {
		e.begun = true
		e.w.Header().Set("Content-Type", "text/event-stream")
		e.w.Header().Set("Cache-Control", "no-store")
		e.w.WriteHeader(http.StatusOK)
	}
	_ = e.c.SetWriteDeadline(time.Now().Add(WriteTimeout)) // recorders in tests do not support deadlines
	if _, err := io.WriteString(e.w, text); err != nil {
		return err
	}
	return e.c.Flush()
}

// End clears the write deadline, because the connection may serve further requests.
func (e *Events) End() { _ = e.c.SetWriteDeadline(time.Time{}) }
