package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/internal/wait"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// watcher watches all runs. It leaves each stream after a while, and continues at the next
// peer after its last cursor.
type watcher struct {
	name  string
	peers []peer
	at    int
	rng   *rand.Rand

	mu     sync.Mutex
	watch  Watch
	ended  map[string]bool
	cursor uint64
}

func newWatcher(name string, peers []peer, at int, rng *rand.Rand) *watcher {
	return &watcher{name: name, peers: peers, at: at, rng: rng, watch: Watch{Name: name}, ended: map[string]bool{}}
}

// follow watches until ctx ends or enough returns true.
func (w *watcher) follow(ctx context.Context, enough func() bool) {
	for ctx.Err() == nil && !enough() {
		w.at++
		session, cancel := context.WithTimeout(ctx,
			500*time.Millisecond+time.Duration(w.rng.Int64N(int64(3*time.Second))))
		err := w.session(session, enough)
		cancel()
		if trouble := streamTrouble(err); trouble != "" {
			w.mu.Lock()
			w.watch.Trouble = append(w.watch.Trouble, fmt.Sprintf("stream %d, after cursor %d, at peer %d: %s",
				w.watch.Sessions, w.cursor, w.at%len(w.peers), trouble))
			w.mu.Unlock()
		}
		_ = wait.Sleep(ctx, 20*time.Millisecond)
	}
}

// session is one stream.
func (w *watcher) session(ctx context.Context, enough func() bool) error {
	w.mu.Lock()
	w.watch.Sessions++
	cursor := w.cursor
	w.mu.Unlock()
	stream, err := w.peers[w.at%len(w.peers)].runs.WatchRuns(ctx, &holdfastv1.WatchRunsRequest{Cursor: cursor})
	if err != nil {
		return err
	}
	var current []Event // without its last event, a state is incomplete
	for first := cursor == 0; ; {
		e, err := stream.Recv()
		if err != nil {
			return err
		}
		ev := seenEvent(e)
		ev.Current = first && (e.GetCursor() == 0 || e.GetMessage() == "current state")
		if ev.Current {
			current = append(current, ev)
			if ev.Cursor == 0 {
				continue
			}
			first = false
		} else {
			current, first = []Event{ev}, false
		}
		w.take(current)
		if enough() {
			return nil
		}
	}
}

func (w *watcher) take(events []Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range events {
		w.watch.Events = append(w.watch.Events, e)
		if e.Run.Ended {
			w.ended[e.Run.ID] = true
		}
	}
	w.cursor = events[len(events)-1].Cursor
}

// hasSeenEnd reports whether the watcher has seen all these runs end.
func (w *watcher) hasSeenEnd(runs []string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !slices.ContainsFunc(runs, func(id string) bool { return !w.ended[id] })
}

func (w *watcher) seen() Watch {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.watch
	all.Events, all.Trouble = slices.Clone(all.Events), slices.Clone(all.Trouble)
	return all
}

func seenEvent(e *holdfastv1.RunEvent) Event {
	var steps []string
	for _, s := range e.GetSnapshot().GetSteps() {
		steps = append(steps, fmt.Sprintf("%d.%d", s.GetState(), len(s.GetAttempts())))
	}
	return Event{Cursor: e.GetCursor(), Index: e.GetIndex(), Run: SeenRun(e.GetSnapshot()),
		Step:    e.GetSnapshot().GetCurrentStep(),
		Message: e.GetMessage(), Steps: strings.Join(steps, " ")}
}

// streamTrouble describes an error that no stream may end with: a peer that dies, stops or
// is cut off causes others.
func streamTrouble(err error) string {
	switch status.Code(err) {
	case codes.OK, codes.Unavailable, codes.Canceled, codes.DeadlineExceeded:
		return ""
	}
	return err.Error()
}
