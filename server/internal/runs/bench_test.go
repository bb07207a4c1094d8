package runs

import (
	"context"
	"sync"
	"testing"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
	"github.com/holdfast-metal/holdfast/server/internal/request"
	"github.com/holdfast-metal/holdfast/server/internal/watch"
)

// BenchmarkEvent measures the time until 5,000 watchers have an event
// (docs/performance.md), without the network. Most of it is spent in gRPC.
func BenchmarkEvent(b *testing.B) {
	const watchers = 5000
	n := nodetest.New()
	n.Machine(b, "m-1")
	n.Start(b, "m-1", "run-1", "")
	n.Begin(b, "run-1", 1)
	draining := make(chan struct{})
	tl := newEventHub(n.Peer, draining)
	f, err := request.Filter(runFilter, "phase = RUNNING")
	if err != nil {
		b.Fatal(err)
	}
	var got, running sync.WaitGroup
	for range watchers {
		running.Add(1)
		w := &runWatch{filter: f, cursor: n.Peer.View().LastRunEvent(), matches: watch.NewMatches(f, false),
			send: func(*holdfastv1.RunEvent) error {
				got.Done()
				return nil
			}}
		go func() {
			defer running.Done()
			_ = w.follow(context.Background(), tl)
		}()
	}
	for b.Loop() {
		got.Add(watchers)
		n.Do(b, &internalv1.NoteProgress{RunId: "run-1", Step: "one", Attempt: 1})
		got.Wait()
	}
	close(draining)
	running.Wait()
}
