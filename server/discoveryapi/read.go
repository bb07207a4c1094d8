package discoveryapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/httpjson"
)

// services gives all that are registered now.
func (a *api) services(r *http.Request) ([]*holdfastv1.Service, error) {
	req := &holdfastv1.ListServicesRequest{PageSize: 1000}
	var all []*holdfastv1.Service
	for {
		resp, err := a.registry.ListServices(r.Context(), req)
		if err != nil {
			return nil, err
		}
		for _, s := range resp.GetServices() {
			if !s.GetDeregistered() {
				all = append(all, s)
			}
		}
		if req.PageToken = resp.GetNextPageToken(); req.GetPageToken() == "" {
			return all, nil
		}
	}
}

// list answers the targets of all services.
func (a *api) list(w http.ResponseWriter, r *http.Request) {
	all, err := a.services(r)
	if err != nil {
		fail(w, err)
		return
	}
	targets := make([]target, 0, len(all))
	for _, s := range all {
		targets = append(targets, showTarget(s.GetTarget()))
	}
	httpjson.Write(w, http.StatusOK, response{Data: targets})
}

// states answers the activity records of services of some types, by name.
func (a *api) states(types ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		all, err := a.services(r)
		if err != nil {
			fail(w, err)
			return
		}
		byName := map[string][]activity{}
		for _, s := range all {
			if t := s.GetTarget(); slices.Contains(types, t.GetServiceType()) {
				byName[t.GetServiceName()] = append(byName[t.GetServiceName()], showActivity(s))
			}
		}
		httpjson.Write(w, http.StatusOK, response{Data: byName})
	}
}

// keepStream is how often a stream without news shows that it is alive.
const keepStream = 15 * time.Second

// notification is one server-sent event.
type notification struct {
	Event    string   `json:"event"` // register, deregister, update
	Target   target   `json:"target"`
	Activity activity `json:"activity"`
}

// notifications streams what is registered, then every change, as server-sent events. A client that comes back with Last-Event-ID,
// here or at another peer, misses none.
func (a *api) notifications(w http.ResponseWriter, r *http.Request) {
	var cursor uint64
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		var err error
		if cursor, err = strconv.ParseUint(id, 10, 64); err != nil {
			refuse(w, http.StatusBadRequest, "Last-Event-ID is "+strconv.Quote(id)+": want the id of an event, or none")
			return
		}
	}
	c := http.NewResponseController(w)
	begun := false
	begin := func() {
		if !begun {
			begun = true
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Cache-Control", "no-store")
			w.WriteHeader(http.StatusOK)
		}
	}
	events := make(chan *holdfastv1.ServiceEvent)
	ended := make(chan error, 1)
	ctx := r.Context()
	go func() { // ends with the request
		ended <- a.watch.Services(ctx, "", cursor, func(e *holdfastv1.ServiceEvent) error {
			select {
			case events <- e:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	alive := time.NewTicker(keepStream)
	defer alive.Stop()
	for {
		var err error
		select {
		case e := <-events:
			begin()
			err = send(w, e)
		case <-alive.C:
			begin()
			_, err = fmt.Fprint(w, ": alive\n\n")
		case err := <-ended:
			if !begun && status.Code(err) == codes.OutOfRange {
				refuse(w, http.StatusGone, status.Convert(err).Message())
			} else if !begun {
				fail(w, err)
			}
			return
		case <-ctx.Done():
			return
		}
		if err == nil {
			err = c.Flush()
		}
		if err != nil {
			return
		}
	}
}

func send(w http.ResponseWriter, e *holdfastv1.ServiceEvent) error {
	if id := e.GetCursor(); id != 0 {
		if _, err := fmt.Fprintf(w, "id: %d\n", id); err != nil {
			return err
		}
	}
	s := e.GetService()
	if s == nil {
		_, err := fmt.Fprint(w, "\n")
		return err
	}
	n := notification{Event: "update", Target: showTarget(s.GetTarget()), Activity: showActivity(s)}
	switch {
	case s.GetDeregistered():
		n.Event = "deregister"
	case len(s.GetStates()) <= 1 && s.GetRegisteredAt().AsTime().Equal(s.GetUpdatedAt().AsTime()):
		n.Event = "register"
	}
	data, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("encode event: %w", err)
	}
	_, err = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", n.Event, data)
	return err
}
