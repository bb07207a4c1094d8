package discoveryapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

const (
	// keepStream is how often a stream without news shows that it is alive; firstSign is when one
	// that has nothing to tell says so.
	keepStream = 15 * time.Second
	firstSign  = 200 * time.Millisecond
	// slowest is how long a client may leave what it was sent lying.
	slowest = 30 * time.Second
)

// notification is one server-sent event.
type notification struct {
	Event    string   `json:"event"` // register, deregister, update
	Target   target   `json:"target"`
	Activity activity `json:"activity"`
}

// notifications streams what is registered, then every change, as server-sent events. A client that
// comes back with Last-Event-ID, here or at another peer, misses none. Who is not let in any more
// is shown nothing more.
func (a *api) notifications(w http.ResponseWriter, r *http.Request) {
	var cursor uint64
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		var err error
		if cursor, err = strconv.ParseUint(id, 10, 64); err != nil {
			refuse(w, http.StatusBadRequest, "Last-Event-ID is "+strconv.Quote(id)+": want the id of an event, or none")
			return
		}
	}
	ctx, cancel := context.WithCancel(r.Context())
	events, done := make(chan *holdfastv1.ServiceEvent), make(chan struct{})
	var end error // once done is closed
	go func() {
		defer close(done)
		end = a.watch.Services(ctx, "", cursor, func(e *holdfastv1.ServiceEvent) error {
			select {
			case events <- e:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	defer func() {
		cancel()
		<-done
	}()
	out := &stream{w: w, c: http.NewResponseController(w)}
	defer out.end()
	alive := time.NewTimer(firstSign)
	defer alive.Stop()
	for {
		text := ": alive\n\n"
		select {
		case e := <-events:
			text = event(e)
		case <-alive.C:
			alive.Reset(keepStream)
		case <-done:
			if !out.begun {
				fail(w, end)
			}
			return
		case <-ctx.Done():
			return
		}
		_, err := a.access.WhoAmI(ctx, &holdfastv1.WhoAmIRequest{})
		if err == nil {
			err = out.write(text)
		} else if !out.begun {
			fail(w, err)
		}
		if err != nil {
			return
		}
	}
}

// stream is an answer that goes on.
type stream struct {
	w     http.ResponseWriter
	c     *http.ResponseController
	begun bool
}

func (s *stream) write(text string) error {
	if !s.begun {
		s.begun = true
		s.w.Header().Set("Content-Type", "text/event-stream")
		s.w.Header().Set("Cache-Control", "no-store")
		s.w.WriteHeader(http.StatusOK)
	}
	_ = s.c.SetWriteDeadline(time.Now().Add(slowest)) // writers of tests have none
	if _, err := io.WriteString(s.w, text); err != nil {
		return err
	}
	return s.c.Flush()
}

// end leaves the connection as it was: others may come over it.
func (s *stream) end() { _ = s.c.SetWriteDeadline(time.Time{}) }

// event words a change. One without a service only says where the stream is.
func event(e *holdfastv1.ServiceEvent) string {
	var text strings.Builder
	if id := e.GetCursor(); id != 0 {
		fmt.Fprintf(&text, "id: %d\n", id)
	}
	if s := e.GetService(); s != nil {
		n := notification{Event: "update", Target: showTarget(s.GetTarget()), Activity: showActivity(s)}
		switch {
		case s.GetDeregistered():
			n.Event = "deregister"
		case len(s.GetStates()) <= 1 && s.GetRegisteredAt().AsTime().Equal(s.GetUpdatedAt().AsTime()):
			n.Event = "register"
		}
		data, _ := json.Marshal(n) // nothing in it can fail
		fmt.Fprintf(&text, "event: %s\ndata: %s\n", n.Event, data)
	}
	text.WriteString("\n")
	return text.String()
}
