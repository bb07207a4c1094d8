package runs

import (
	"context"

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

// WatchRuns streams the current state of the matching runs, oldest first, and then every
// transition, in order and each exactly once.
//
// The events of the current state have cursor 0, except the last one, which has the
// cursor to resume from. So a client that is interrupted before then starts over instead
// of missing the rest.
//
// A filter is matched against the run after each transition. The transition with which a
// run stops matching is sent too, so that a watcher of phase=RUNNING sees the run end. A
// resumed stream does not know which runs matched before the cursor. It sends the first
// transition of a run if the run could have matched, according to the fields that never
// change.
//
// With bookmarks, an event without a run follows the current state if no run matches.
// Later ones follow when the stream has skipped many events or has been silent for a
// while, so that an interrupted client can still resume.
//
// The start of the stream is as fresh as the call requires (linearizable by default);
// from there on it follows this peer's state. A client that reads too slowly gets
// OUT_OF_RANGE once its next event is no longer kept, never a gap.
func (s *Service) WatchRuns(
	r *holdfastv1.WatchRunsRequest, stream grpc.ServerStreamingServer[holdfastv1.RunEvent],
) error {
	return s.Watch(stream.Context(), r, stream.Send)
}

// Watch is WatchRuns for a caller in this process.
func (s *Service) Watch(
	ctx context.Context, r *holdfastv1.WatchRunsRequest, send func(*holdfastv1.RunEvent) error,
) error {
	f, err := request.Filter(runFilter, r.GetFilter())
	if err != nil {
		return err
	}
	v, err := s.Cluster.View(ctx)
	if err != nil {
		return err
	}
	w := &runWatch{
		filter:    f,
		matches:   watch.NewMatches(f, r.GetCursor() != 0),
		sees:      scope.SeesRuns(auth.From(ctx), s.State.View),
		send:      send,
		cursor:    r.GetCursor(),
		bookmarks: r.GetBookmarks(),
	}
	w.sent.Sent(w.cursor)
	switch {
	case w.cursor == 0:
		if err := w.current(v); err != nil {
			return err
		}
	case w.cursor > v.LastRunEvent():
		if err := edge.CheckCursor(ctx, s.Cluster, w.cursor, (*fsm.View).Events); err != nil {
			return err
		}
	}
	return w.follow(ctx, s.hub)
}

// runWatch is one stream of events.
type runWatch struct {
	filter    *filter.Filter
	matches   *watch.Matches
	sees      func(*holdfastv1.Run) bool // whether the caller may see a run; nil: all of them
	send      func(*holdfastv1.RunEvent) error
	cursor    uint64
	bookmarks bool // the client wants them
	sent      watch.Bookmarks
}

// current sends the state of a view.
func (w *runWatch) current(v *fsm.View) error {
	var held *holdfastv1.RunEvent
	now := v.Meta().GetNow()
	for run := range runsByAge(v, w.filter) {
		run = readable(v, run)
		if w.hides(run) || !w.matches.Current(run.GetRunId(), run, fsm.Ended(run)) {
			continue
		}
		if held != nil {
			if err := w.send(held); err != nil {
				return err
			}
		}
		held = &holdfastv1.RunEvent{Ts: now, Snapshot: run, Message: "current state", Index: run.GetRevision()}
	}
	w.cursor = v.LastRunEvent()
	if held == nil {
		return w.bookmark()
	}
	held.Cursor = w.cursor
	w.sent.Sent(w.cursor)
	return w.send(held)
}

// bookmark sends the current cursor to the client, if the client wants bookmarks.
func (w *runWatch) bookmark() error {
	if !w.bookmarks || w.cursor == 0 {
		return nil
	}
	w.sent.Sent(w.cursor)
	return w.send(&holdfastv1.RunEvent{Cursor: w.cursor})
}

// follow sends the events after the cursor until the stream ends.
func (w *runWatch) follow(ctx context.Context, t *eventHub) error {
	for {
		sent, err := w.next(t)
		if err != nil {
			return err
		}
		if sent {
			err = edge.Ended(ctx, t.draining)
		} else {
			err = t.wait(ctx, w.cursor)
		}
		if err != nil {
			return err
		}
	}
}

// next sends some of the events after the cursor, and reports whether there were any.
func (w *runWatch) next(t *eventHub) (bool, error) {
	events, err := t.after(w.cursor)
	for _, e := range events {
		if w.wants(e) {
			if err := w.send(e); err != nil {
				return true, err
			}
			w.sent.Sent(e.GetCursor())
		}
		w.cursor = e.GetCursor()
	}
	if err == nil && w.sent.Due(w.cursor) {
		err = w.bookmark()
	}
	return len(events) > 0, err
}

// wants reports whether a transition must be sent. New runs are PENDING.
func (w *runWatch) wants(e *holdfastv1.RunEvent) bool {
	run := e.GetSnapshot()
	return !w.hides(run) &&
		w.matches.Selects(run.GetRunId(), run, run.GetPhase() == holdfastv1.Run_PENDING, fsm.Ended(run))
}

// hides reports whether the caller must not see a run.
func (w *runWatch) hides(run *holdfastv1.Run) bool { return w.sees != nil && !w.sees(run) }
