package events

import (
	"time"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/filter"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/request"
	"github.com/holdfast-metal/holdfast/server/internal/scope"
	"github.com/holdfast-metal/holdfast/server/internal/watch"
)

// eventPause is the minimum time between two reads of the state for a watcher.
const eventPause = 20 * time.Millisecond

// Service implements EventService.
type Service struct {
	holdfastv1.UnimplementedEventServiceServer
	*edge.Peer
}

// New returns the service of a peer.
func New(peer *edge.Peer) *Service { return &Service{Peer: peer} }

// WatchEvents streams events in order, each exactly once. If it has sent nothing for a
// while, or has skipped many events, it sends a bookmark, so that an interrupted client
// can still resume. The start is as fresh as the call requires; from there on the stream
// follows this peer's state.
func (s *Service) WatchEvents(
	r *holdfastv1.WatchEventsRequest, stream grpc.ServerStreamingServer[holdfastv1.Event],
) error {
	ctx := stream.Context()
	f, err := request.Filter(filter.EventSchema, r.GetFilter())
	if err != nil {
		return err
	}
	v, err := s.Cluster.View(ctx)
	if err != nil {
		return err
	}
	w := &eventWatch{
		filter: f,
		sees:   seesEvents(auth.From(ctx), s.State.View),
		send:   stream.Send,
		cursor: r.GetCursor(),
	}
	w.sent.Sent(w.cursor)
	switch {
	case w.cursor == 0:
		w.cursor = v.LastEvent()
		if err := w.bookmark(); err != nil {
			return err
		}
	case w.cursor > v.LastEvent():
		if err := edge.CheckCursor(ctx, s.Cluster, w.cursor, (*fsm.View).Events); err != nil {
			return err
		}
	}
	return s.Follow(ctx, eventPause, w.follow)
}

// eventWatch is one stream of events.
type eventWatch struct {
	filter *filter.Filter
	sees   func(*holdfastv1.Event) bool // whether the caller may see an event
	send   func(*holdfastv1.Event) error
	cursor uint64
	sent   watch.Bookmarks
}

// follow sends the events of a view after the cursor. A view older than the cursor has
// none.
func (w *eventWatch) follow(v *fsm.View) error {
	for w.cursor < v.LastEvent() {
		events, err := v.Events(w.cursor, watch.Batch)
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
			w.sent.Sent(w.cursor)
		}
		if w.sent.Due(w.cursor) {
			if err := w.bookmark(); err != nil {
				return err
			}
		}
	}
	return nil
}

// bookmark sends the current cursor to the client.
func (w *eventWatch) bookmark() error {
	w.sent.Sent(w.cursor)
	return w.send(&holdfastv1.Event{Cursor: w.cursor})
}

// seesEvents returns a function that reports whether a caller may see an event. The
// machine must be visible to the caller now, or the pool in scope.
func seesEvents(id *holdfastv1.Identity, view func() *fsm.View) func(*holdfastv1.Event) bool {
	if !auth.Scoped(id) {
		return func(*holdfastv1.Event) bool { return true }
	}
	return func(e *holdfastv1.Event) bool {
		if e.GetPool() != nil {
			return auth.InScope(id, e.GetPool().GetPoolId())
		}
		if e.GetMachineId() == "" { // of a service
			return scope.SeesServices(id)
		}
		if e.GetRun() != nil {
			return scope.SeesRuns(id, view)(e.GetRun())
		}
		m, ok := view().Machine(e.GetMachineId())
		return ok && scope.Visible(id, m) && scope.SeesChange(id, e.GetChange())
	}
}
