package joinwatch

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// lab is a cluster whose other peer refuses connections.
type lab struct{ leader atomic.Bool }

func (l *lab) Standing() Standing {
	return Standing{Self: "n1", Leader: l.leader.Load(), Voters: []string{"n1", "n2"}, Seen: []string{"n1", "n2"}}
}

func (l *lab) Ask(context.Context, string) error { return errors.New("dial tcp: connection refused") }

func (l *lab) FailedJoins() map[string]error { return nil }

// buffer is a bytes.Buffer for concurrent use.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// TestReasonIsLogged checks that the reason is logged within 5 s and then every 30 s, and forgotten
// when a leader is known.
func TestReasonIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log buffer
		l := &lab{}
		w := New(l, slog.New(slog.NewTextHandler(&log, nil)))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- w.Run(ctx) }()
		defer func() {
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
		at := func(d time.Duration, lines int) {
			t.Helper()
			time.Sleep(d) // sleep: the clock of the bubble
			synctest.Wait()
			if n := strings.Count(log.String(), "this peer knows no leader"); n != lines {
				t.Errorf("got %d lines, want %d:\n%s", n, lines, log.String())
			}
		}
		const want = "n2 does not answer, 2 of 2 voters are needed: start it"
		if got := w.Reason(); !strings.HasPrefix(got, "none since") {
			t.Errorf("before the first look: got %q, want what gossip says", got)
		}
		at(2500*time.Millisecond, 0)
		if got := w.Reason(); got != want {
			t.Errorf("got reason %q, want %q", got, want)
		}
		at(2500*time.Millisecond, 1)
		at(25*time.Second, 1)
		at(6*time.Second, 2)
		l.leader.Store(true)
		at(time.Minute, 2)
		if w.reason.Load() != nil {
			t.Error("with a leader: got a reason")
		}
		l.leader.Store(false)
		at(5*time.Second+time.Millisecond, 3)
		if !strings.Contains(log.String(), want) {
			t.Errorf("got log %q, want %q in it", log.String(), want)
		}
	})
}
