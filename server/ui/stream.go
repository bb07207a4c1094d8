package ui

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/holdfast-metal/holdfast/server/httpjson"
)

const (
	// keepStream is how often a stream without news shows that it is alive, and looks whether who
	// reads it may still do so.
	keepStream = 3 * time.Second
	// slowest is how long a browser may leave what it was sent lying.
	slowest = 30 * time.Second
)

// stream is an answer of server-sent events. It ends with the request, when the peer stops, and
// when its reader's token is revoked.
type stream struct {
	d     *dashboard
	w     http.ResponseWriter
	c     *http.ResponseController
	ctx   context.Context //nolint:containedctx // of the request that it answers
	begun bool
	conn  *conn
	pulse func(at position) string // what is sent when nothing else is
}

func (d *dashboard) stream(w http.ResponseWriter, r *http.Request) *stream {
	return &stream{d: d, w: w, c: http.NewResponseController(w), ctx: r.Context(), conn: &conn{rpc: d.rpc, reads: true},
		pulse: func(position) string { return ": alive\n\n" }}
}

// run sends what follow gives, and a pulse in between, until one of them ends. An error before
// anything was sent is the answer.
func (s *stream) run(follow func(send func(text string) error) error) {
	ctx, cancel := context.WithCancel(s.ctx)
	s.ctx = ctx
	texts, done := make(chan string), make(chan struct{})
	var end error // once done is closed
	go func() {
		defer close(done)
		end = follow(func(text string) error {
			select {
			case texts <- text:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	defer func() {
		cancel()
		<-done
		_ = s.c.SetWriteDeadline(time.Time{}) // others may come over this connection
	}()
	read := newClients(s.conn)
	alive := time.NewTicker(keepStream)
	defer alive.Stop()
	for {
		var text string
		select {
		case text = <-texts:
		case <-alive.C:
			if !stillIn(ctx, read) {
				return
			}
			text = s.pulse(s.conn.position())
		case <-done:
			if !s.begun {
				http.Error(s.w, httpjson.Message(end), httpjson.Status(end))
			}
			return
		case <-ctx.Done():
			return
		}
		if s.write(text) != nil {
			return
		}
	}
}

func (s *stream) write(text string) error {
	if !s.begun {
		s.begun = true
		s.w.Header().Set("Content-Type", "text/event-stream")
		s.w.WriteHeader(http.StatusOK)
	}
	_ = s.c.SetWriteDeadline(time.Now().Add(slowest)) // writers of tests have none
	if _, err := io.WriteString(s.w, text); err != nil {
		return err
	}
	return s.c.Flush()
}
