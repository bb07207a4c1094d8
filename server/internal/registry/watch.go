package registry

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/filter"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/request"
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
	v, err := s.Node.View(ctx)
	if err != nil {
		return err
	}
	w := &serviceWatch{filter: f, send: send, cursor: cursor, resumed: cursor != 0, matched: map[string]bool{}}
	switch {
	case cursor == 0:
		if err := w.current(v); err != nil {
			return err
		}
	case cursor > v.LastServiceEvent():
		// A stale view may be older than the view of the peer that returned the cursor. A
		// linearizable one cannot be.
		if v, err = s.Node.View(cluster.WithConsistency(ctx, cluster.Consistency{})); err != nil {
			return err
		}
		if _, err := v.ServiceEvents(cursor, 1); err != nil {
			return err
		}
	}
	for {
		changed := s.State.Changed()
		if err := w.follow(s.State.View()); err != nil {
			return err
		}
		if err := edge.Pause(ctx, s.Draining, servicePause, changed); err != nil {
			return err
		}
	}
}

// serviceWatch is one stream of changes.
type serviceWatch struct {
	filter  *filter.Filter
	send    func(*holdfastv1.ServiceEvent) error
	cursor  uint64
	resumed bool            // services that are not in matched may have matched before
	matched map[string]bool // services seen by this stream, if their match can change
}

// current sends the state of a view.
func (w *serviceWatch) current(v *fsm.View) error {
	last := &holdfastv1.ServiceEvent{}
	for svc := range v.Services("") {
		if svc.GetDeregistered() || !w.filter.Match(svc) {
			continue
		}
		w.note(svc, true)
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
		events, err := v.ServiceEvents(w.cursor, edge.EventBatch)
		if err != nil {
			return err
		}
		for _, e := range events {
			if w.wants(e.GetService()) {
				if err := w.send(e); err != nil {
					return err
				}
			}
			w.cursor = e.GetCursor()
		}
	}
	return nil
}

// wants reports whether a change must be sent: the service matches after it, or did
// before it.
func (w *serviceWatch) wants(svc *holdfastv1.Service) bool {
	matches := w.filter.Match(svc)
	if w.filter.Fixed() {
		return matches
	}
	before, known := w.matched[svc.GetTarget().GetId()]
	if !known && w.resumed {
		before = w.filter.Possible(svc)
	}
	w.note(svc, matches)
	return matches || before
}

// note records whether a service matches, until it is deregistered.
func (w *serviceWatch) note(svc *holdfastv1.Service, matches bool) {
	switch {
	case w.filter.Fixed():
	case svc.GetDeregistered():
		delete(w.matched, svc.GetTarget().GetId())
	default:
		w.matched[svc.GetTarget().GetId()] = matches
	}
}
