package registry

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/request"
	"github.com/holdfast-metal/holdfast/server/internal/scope"
	"github.com/holdfast-metal/holdfast/server/internal/watch"
)

// servicePause is the minimum time between two reads of the state for a watcher.
const servicePause = 20 * time.Millisecond

// WatchServices streams the services that match, and then every change of a service that
// matches or did before, in order and each exactly once. The last event of the current
// state has the cursor to resume from, and no service if none matches. The other events
// of the current state have no cursor. The change with which a service stops matching is
// sent too, as in WatchRuns.
func (s *Services) WatchServices(
	r *holdfastv1.WatchServicesRequest, stream grpc.ServerStreamingServer[holdfastv1.ServiceEvent],
) error {
	return s.Watch(stream.Context(), r.GetFilter(), r.GetCursor(), stream.Send)
}

// Watch is WatchServices for a caller in this process.
func (s *Services) Watch(
	ctx context.Context, text string, cursor uint64, send func(*holdfastv1.ServiceEvent) error,
) error {
	f, err := request.Filter(serviceFilter, text)
	if err != nil {
		return err
	}
	v, err := s.Cluster.View(ctx)
	if err != nil {
		return err
	}
	w := &serviceWatch{
		matches: watch.NewMatches(f, cursor != 0), send: send, cursor: cursor, blind: !scope.SeesServices(auth.From(ctx)),
	}
	switch {
	case cursor == 0:
		if err := w.current(v); err != nil {
			return err
		}
	case cursor > v.LastServiceEvent():
		if err := edge.CheckCursor(ctx, s.Cluster, cursor, (*fsm.View).ServiceEvents); err != nil {
			return err
		}
	}
	return s.Follow(ctx, servicePause, w.follow)
}

// serviceWatch is one stream of changes.
type serviceWatch struct {
	matches *watch.Matches
	send    func(*holdfastv1.ServiceEvent) error
	cursor  uint64
	blind   bool // the caller may see no service
}

// current sends the state of a view.
func (w *serviceWatch) current(v *fsm.View) error {
	last := &holdfastv1.ServiceEvent{}
	for svc := range v.Services("") {
		if w.blind || svc.GetDeregistered() || !w.matches.Current(svc.GetTarget().GetId(), svc, false) {
			continue
		}
		if last.GetService() != nil {
			if err := w.send(last); err != nil {
				return err
			}
		}
		last = &holdfastv1.ServiceEvent{Service: svc, At: svc.GetUpdatedAt()}
	}
	w.cursor = v.LastServiceEvent()
	last.Cursor = w.cursor
	if last.GetCursor() == 0 && last.GetService() == nil {
		return nil
	}
	return w.send(last)
}

// follow sends the changes of a view after the cursor. A view older than the cursor has
// none.
func (w *serviceWatch) follow(v *fsm.View) error {
	for w.cursor < v.LastServiceEvent() {
		events, err := v.ServiceEvents(w.cursor, watch.Batch)
		if err != nil {
			return err
		}
		for _, e := range events {
			svc := e.GetService()
			if !w.blind && w.matches.Selects(svc.GetTarget().GetId(), svc, false, svc.GetDeregistered()) {
				if err := w.send(e); err != nil {
					return err
				}
			}
			w.cursor = e.GetCursor()
		}
	}
	return nil
}
