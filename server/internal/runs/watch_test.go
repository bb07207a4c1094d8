package runs

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
	"github.com/holdfast-metal/holdfast/server/internal/request"
	"github.com/holdfast-metal/holdfast/server/internal/watch"
)

// A stream that did not ask for bookmarks gets none. Time also makes them due.
func TestWatchBookmarksAreDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := nodetest.New()
		n.Machine(t, "m-1")
		n.Start(t, "m-1", "run-1", "")
		f, err := request.Filter(runFilter, "machine_id=m-none")
		if err != nil {
			t.Fatal(err)
		}
		for _, bookmarks := range []bool{false, true} {
			var got []uint64
			w := &runWatch{matches: watch.NewMatches(f, false), bookmarks: bookmarks}
			w.send = func(e *holdfastv1.RunEvent) error {
				got = append(got, e.GetCursor())
				return nil
			}
			w.sent.Sent(0)
			tl := newEventHub(n.Peer, nil)
			for range 5 {
				if _, err := w.next(tl); err != nil {
					t.Fatal(err)
				}
				time.Sleep(4 * time.Second) // sleep: of synctest
			}
			var want []uint64
			if bookmarks {
				want = []uint64{1} // nothing has happened since
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("bookmarks=%v (-want +got):\n%s", bookmarks, diff)
			}
		}
	})
}

// TestWatchTooSlow checks that a stream that was open all the time ends once its next event
// is no longer kept.
func TestWatchTooSlow(t *testing.T) {
	n := nodetest.New()
	n.Machine(t, "m-1")
	n.Start(t, "m-1", "run-1", "")
	n.Begin(t, "run-1", 1)
	slow := &runWatch{cursor: 1}
	n.Outgrow("run-1")
	_, err := slow.next(newEventHub(n.Peer, nil))
	if e, ok := errors.AsType[*fsm.Error](err); !ok || e.Reason != fsm.ReasonCursorGone {
		t.Errorf("got %v, want %s", err, fsm.ReasonCursorGone)
	}
}

// TestWatchManyTails checks that a change wakes all waiting streams, even if the one that
// polls for all of them ends.
func TestWatchManyTails(t *testing.T) {
	n := nodetest.New()
	n.Machine(t, "m-1")
	n.Start(t, "m-1", "run-1", "")
	tl := newEventHub(n.Peer, make(chan struct{}))
	first, leave := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- tl.wait(first, 1) }()
	// sleep: the poll of a deadline
	for end := time.Now().Add(15 * time.Second); len(tl.poller) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the first watcher does not poll the state")
		}
	}
	const others = 20
	woken := make(chan error, others)
	for range others {
		go func() { woken <- tl.wait(context.Background(), 1) }()
	}
	leave()
	if err := <-done; status.Code(status.FromContextError(err).Err()) != codes.Canceled {
		t.Errorf("the canceled watcher: got %v, want Canceled", err)
	}
	n.Begin(t, "run-1", 1)
	for range others {
		select {
		case err := <-woken:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("no watcher polls the state")
		}
	}
}

// allEvents returns all events of runs.
func allEvents(t testing.TB, v *fsm.View) []*holdfastv1.RunEvent {
	t.Helper()
	es, err := v.RunEvents(0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return es
}
