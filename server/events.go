package server

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/filter"
	"github.com/holdfast-metal/holdfast/server/webhook"
)

// newsPause is the least time between two looks of a watcher at the state.
const newsPause = 20 * time.Millisecond

// eventService is EventService.
type eventService struct {
	holdfastv1.UnimplementedEventServiceServer
	*Server
}

// WatchEvents streams what happens, in order, none left out and none twice. Whenever so many events
// were not wanted, or for so long, that a client that breaks off could not go on, it sends a
// bookmark. The start is as fresh as the call asks for; from there on the stream follows this
// peer's state.
func (s *eventService) WatchEvents(r *holdfastv1.WatchEventsRequest, stream grpc.ServerStreamingServer[holdfastv1.Event]) error {
	ctx := stream.Context()
	f, err := compile(webhook.Schema, r.GetFilter())
	if err != nil {
		return err
	}
	v, err := s.node.View(ctx)
	if err != nil {
		return err
	}
	w := &eventWatch{filter: f, sees: seesEvents(auth.From(ctx), s.state.View), send: stream.Send, cursor: r.GetCursor(), told: r.GetCursor(), toldAt: time.Now()}
	switch {
	case w.cursor == 0:
		w.cursor = v.LastNews()
		if err := w.bookmark(); err != nil {
			return err
		}
	case w.cursor > v.LastNews():
		// A stale view may be behind the peer that gave out the cursor; a linearizable one cannot
		// be.
		if v, err = s.node.View(cluster.WithConsistency(ctx, cluster.Consistency{})); err != nil {
			return err
		}
		if _, err := v.News(w.cursor, 1); err != nil {
			return err
		}
	}
	return s.followEvents(ctx, w)
}

func (s *Server) followEvents(ctx context.Context, w *eventWatch) error {
	for {
		changed := s.state.Changed()
		if err := w.follow(s.state.View()); err != nil {
			return err
		}
		if err := pause(ctx, s.draining, newsPause, changed); err != nil {
			return err
		}
	}
}

// eventWatch is one stream of events.
type eventWatch struct {
	filter *filter.Filter
	sees   func(*holdfastv1.Event) bool // that the caller may see
	send   func(*holdfastv1.Event) error
	cursor uint64
	told   uint64 // the last cursor that the client got
	toldAt time.Time
}

// follow sends the events after the cursor that a view has. A view that is behind the cursor has
// none.
func (w *eventWatch) follow(v *fsm.View) error {
	for w.cursor < v.LastNews() {
		events, err := v.News(w.cursor, eventBatch)
		if err != nil {
			return err
		}
		for _, e := range events {
			w.cursor = e.GetCursor()
			if !w.filter.Match(e) || !w.sees(e) {
				continue
			}
			if err := w.send(e); err != nil {
				return err
			}
			w.told, w.toldAt = w.cursor, time.Now()
		}
		if w.cursor-w.told >= bookmarkEvents || w.cursor > w.told && time.Since(w.toldAt) >= bookmarkPause {
			if err := w.bookmark(); err != nil {
				return err
			}
		}
	}
	return nil
}

// bookmark tells the client where the stream is.
func (w *eventWatch) bookmark() error {
	w.told, w.toldAt = w.cursor, time.Now()
	return w.send(&holdfastv1.Event{Cursor: w.cursor})
}

// seesEvents reports of each event whether a caller may see it: its machine must be visible to the
// caller now, and its pool in scope. Services are for all.
func seesEvents(id *holdfastv1.Identity, view func() *fsm.View) func(*holdfastv1.Event) bool {
	if !auth.Scoped(id) {
		return func(*holdfastv1.Event) bool { return true }
	}
	return func(e *holdfastv1.Event) bool {
		if e.GetPool() != nil {
			return auth.InScope(id, e.GetPool().GetPoolId())
		}
		if e.GetMachineId() == "" {
			return true
		}
		m, ok := view().Machine(e.GetMachineId())
		return ok && visible(id, m)
	}
}
