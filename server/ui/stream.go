package ui

import (
	"context"
	"net/http"
	"time"

	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/httpjson"
)

// pulseEvery is the interval of pulses, and of checks whether the reader is still authorized.
const pulseEvery = 3 * time.Second

// stream is a response of server-sent events. It ends with the request, when the peer
// stops, and when the reader's token ends.
type stream struct {
	d     *dashboard
	w     http.ResponseWriter
	out   *httpjson.Events
	ctx   context.Context //nolint:containedctx // the context of the request
	conn  *conn
	pulse func(at position) string // returns the text to send if there are no events
}

func (d *dashboard) stream(w http.ResponseWriter, r *http.Request) *stream {
	return &stream{
		d:     d,
		w:     w,
		out:   httpjson.NewEvents(w),
		ctx:   r.Context(),
		conn:  &conn{ClientConnInterface: d.rpc, reads: true},
		pulse: func(position) string { return ": alive\n\n" },
	}
}

// run sends the texts of follow and pulses in between, until follow returns or the stream
// ends. If follow fails before anything was sent, its error is the response.
func (s *stream) run(follow func(send func(text string) error) error) {
	ctx, release := auth.Until(s.ctx)
	defer release()
	ctx, cancel := context.WithCancel(ctx)
	s.ctx = ctx
	texts, done := make(chan string), make(chan struct{})
	var end error // valid once done is closed
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
		s.out.End()
	}()
	read := newClients(s.conn)
	alive := time.NewTicker(pulseEvery)
	defer alive.Stop()
	for {
		var text string
		select {
		case text = <-texts:
		case <-alive.C:
			if !authorized(ctx, read) {
				return
			}
			text = s.pulse(s.conn.position())
		case <-done:
			if !s.out.Begun() {
				http.Error(s.w, httpjson.Message(end), httpjson.Status(end))
			}
			return
		case <-ctx.Done():
			return
		}
		if s.out.Write(text) != nil {
			return
		}
	}
}
