package discoveryapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/httpjson"
)

// notification is one server-sent event.
type notification struct {
	Event    string   `json:"event"` // register, deregister, update
	Target   target   `json:"target"`
	Activity activity `json:"activity"`
}

// notifications streams the registered services, then every change, as server-sent events.
// A client that reconnects with Last-Event-ID, to this or another peer, misses no event.
// The stream ends if the caller loses its access.
func (a *api) notifications(w http.ResponseWriter, r *http.Request) {
	var cursor uint64
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		var err error
		if cursor, err = strconv.ParseUint(id, 10, 64); err != nil {
			refuse(w, http.StatusBadRequest, "Last-Event-ID is "+strconv.Quote(id)+": want the id of an event, or none")
			return
		}
	}
	ctx, release := auth.Until(r.Context())
	defer release()
	ctx, cancel := context.WithCancel(ctx)
	events, done := make(chan *holdfastv1.ServiceEvent), make(chan struct{})
	var end error // valid once done is closed
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
	out := httpjson.NewEvents(w)
	defer out.End()
	alive := time.NewTimer(httpjson.FirstAlive)
	defer alive.Stop()
	for {
		text := httpjson.Alive
		select {
		case e := <-events:
			text = event(e)
		case <-alive.C:
			alive.Reset(httpjson.AliveEvery)
		case <-done:
			if !out.Begun() {
				fail(w, end)
			}
			return
		case <-ctx.Done():
			return
		}
		_, err := a.access.WhoAmI(ctx, &holdfastv1.WhoAmIRequest{})
		if err == nil {
			err = out.Write(text)
		} else if !out.Begun() {
			fail(w, err)
		}
		if err != nil {
			return
		}
	}
}

// event formats a change as a server-sent event. A change without a service only moves the
// cursor.
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
		data, _ := json.Marshal(n) // a notification always marshals
		fmt.Fprintf(&text, "event: %s\ndata: %s\n", n.Event, data)
	}
	text.WriteString("\n")
	return text.String()
}
