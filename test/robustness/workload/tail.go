package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-metal/holdfast/internal/wait"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// tails follows the logs of runs, a few at a time. After a while, each log is continued at
// the next peer, at the next byte.
type tails struct {
	peers []peer
	queue chan *tail

	mu  sync.Mutex
	all []*tail
}

// tail is one log. One goroutine at a time works on it.
type tail struct {
	at   int
	mu   sync.Mutex
	seen Tail
}

func newTails(peers []peer) *tails { return &tails{peers: peers, queue: make(chan *tail, 64)} }

// begin follows a log if a worker is free.
func (t *tails) begin(run string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := &tail{at: len(t.all), seen: Tail{Run: run}}
	if slices.ContainsFunc(t.all, func(o *tail) bool { return o.seen.Run == run }) {
		return
	}
	select {
	case t.queue <- l:
		t.all = append(t.all, l)
	default:
	}
}

// work follows one log after the other until ctx ends.
func (t *tails) work(ctx context.Context, rng *rand.Rand) {
	for {
		select {
		case l := <-t.queue:
			t.follow(ctx, l,
				func() time.Duration { return 100*time.Millisecond + time.Duration(rng.Int64N(int64(time.Second))) })
		case <-ctx.Done():
			return
		}
	}
}

// follow reads a log to its end, or until ctx ends.
func (t *tails) follow(ctx context.Context, l *tail, session func() time.Duration) {
	for ctx.Err() == nil {
		call, cancel := context.WithTimeout(ctx, session())
		err := l.read(call, t.peers[l.at%len(t.peers)].runs)
		cancel()
		l.mu.Lock()
		if l.seen.Done = errors.Is(err, io.EOF); l.seen.Done {
			l.mu.Unlock()
			return
		}
		if trouble := streamTrouble(err); trouble != "" {
			l.seen.Trouble = append(l.seen.Trouble, fmt.Sprintf("stream %d, from byte %d, at peer %d: %s",
				l.seen.Sessions, len(l.seen.Data), l.at%len(t.peers), trouble))
		}
		l.mu.Unlock()
		l.at++
		_ = wait.Sleep(ctx, 20*time.Millisecond)
	}
}

func (l *tail) read(ctx context.Context, c holdfastv1.RunServiceClient) error {
	l.mu.Lock()
	l.seen.Sessions++
	from := int64(len(l.seen.Data))
	l.mu.Unlock()
	stream, err := c.StreamRunLogs(ctx, &holdfastv1.StreamRunLogsRequest{RunId: l.seen.Run, Offset: from})
	if err != nil {
		return err
	}
	for {
		chunk, err := stream.Recv()
		if err != nil {
			return err
		}
		l.take(chunk)
	}
}

// take adds a chunk, which has to begin at the end of the last one.
func (l *tail) take(c *holdfastv1.LogChunk) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.GetOffset() != int64(len(l.seen.Data)) {
		l.seen.Trouble = append(l.seen.Trouble,
			fmt.Sprintf("a chunk begins at %d after %d bytes", c.GetOffset(), len(l.seen.Data)))
	}
	l.seen.Data = append(l.seen.Data, c.GetData()...)
}

// finish reads all followed logs to their end.
func (t *tails) finish(ctx context.Context) error {
	t.mu.Lock()
	all := slices.Clone(t.all)
	t.mu.Unlock()
	var errs []error
	for _, l := range all {
		if l.seen.Done {
			continue
		}
		t.follow(ctx, l, func() time.Duration { return 2 * time.Second })
		if !l.seen.Done {
			errs = append(errs, fmt.Errorf("the log of run %s has not ended in time", l.seen.Run))
		}
	}
	return errors.Join(errs...)
}

func (t *tails) seen() []Tail {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []Tail
	for _, l := range t.all {
		l.mu.Lock()
		s := l.seen
		s.Data, s.Trouble = slices.Clone(s.Data), slices.Clone(s.Trouble)
		l.mu.Unlock()
		all = append(all, s)
	}
	return all
}
