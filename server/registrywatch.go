package server

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/filter"
)

// servicePause is the least time between two looks of a watcher at the state.
const servicePause = 20 * time.Millisecond

// WatchServices streams the services that match, then every change of one that does or did, in
// order, none left out and none twice. The last event of the current state has the cursor to go on
// from (without a service when none matches); the others of it have none. The change with which a
// service stops matching is sent too, as WatchRuns does.
func (s *registryService) WatchServices(
	r *holdfastv1.WatchServicesRequest, stream grpc.ServerStreamingServer[holdfastv1.ServiceEvent],
) error {
	return s.watchServices(stream.Context(), r.GetFilter(), r.GetCursor(), stream.Send)
}

// Services is WatchServices for the HTTP API: ctx's caller has been let in. Its errors are
// statuses.
func (s *Server) Services(
	ctx context.Context, text string, cursor uint64, send func(*holdfastv1.ServiceEvent) error,
) error {
	return s.toStatus(ctx, holdfastv1.RegistryService_WatchServices_FullMethodName, s.watchServices(ctx, text, cursor, send))
}

func (s *Server) watchServices(
	ctx context.Context, text string, cursor uint64, send func(*holdfastv1.ServiceEvent) error,
) error {
	f, err := compile(serviceFilter, text)
	if err != nil {
		return err
	}
	v, err := s.node.View(ctx)
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
		// A stale view may be behind the peer that gave out the cursor; a linearizable one cannot
		// be.
		if v, err = s.node.View(cluster.WithConsistency(ctx, cluster.Consistency{})); err != nil {
			return err
		}
		if _, err := v.ServiceEvents(cursor, 1); err != nil {
			return err
		}
	}
	for {
		changed := s.state.Changed()
		if err := w.follow(s.state.View()); err != nil {
			return err
		}
		if err := pause(ctx, s.draining, servicePause, changed); err != nil {
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
	matched map[string]bool // services that this stream has seen, with a filter whose answer can change
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

// follow sends the changes after the cursor that a view has. A view that is behind the cursor has
// none.
func (w *serviceWatch) follow(v *fsm.View) error {
	for w.cursor < v.LastServiceEvent() {
		events, err := v.ServiceEvents(w.cursor, eventBatch)
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

// wants reports whether a change is sent: the service matches after it or did before it.
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

// note remembers whether a service matches, as long as it is registered.
func (w *serviceWatch) note(svc *holdfastv1.Service, matches bool) {
	switch {
	case w.filter.Fixed():
	case svc.GetDeregistered():
		delete(w.matched, svc.GetTarget().GetId())
	default:
		w.matched[svc.GetTarget().GetId()] = matches
	}
}
