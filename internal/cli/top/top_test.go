package top

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// fakeSource has the fixture. Its first watch ends with an error.
type fakeSource struct{ watches atomic.Int32 }

func (s *fakeSource) Status(context.Context) (*holdfastv1.ClusterStatus, error) {
	return someStatus(), nil
}

func (s *fakeSource) Fleet(context.Context) (*Fleet, error) { return someFleet(), nil }

func (s *fakeSource) WatchRuns(ctx context.Context, f func(*holdfastv1.RunEvent) error) error {
	if s.watches.Add(1) == 1 {
		return errors.New("peer unavailable")
	}
	cursor := uint64(0)
	for _, r := range someRuns() {
		if err := f(&holdfastv1.RunEvent{Cursor: cursor, Snapshot: r}); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

// terminal is the output of a program.
type terminal struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *terminal) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *terminal) waitFor(t *testing.T, text string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(30 * time.Second); ; {
		b.mu.Lock()
		ok := strings.Contains(b.b.String(), text)
		b.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("wait for %q: timed out; got %q", text, b.b.String())
		}
	}
}

// The view runs until a user quits or the context ends. Both restore the terminal, and no goroutine
// remains.
func TestRun(t *testing.T) {
	for _, quit := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		in, keys := io.Pipe()
		var out terminal
		done := make(chan error, 1)
		go func() {
			done <- New(Config{In: in, Out: &out, Env: []string{"TERM=xterm"}, Every: 50 * time.Millisecond, Now: now,
				Width: 110, Height: 30}, &fakeSource{}).Run(ctx)
		}()
		out.waitFor(t, "leader n2")
		out.waitFor(t, "run-2") // from the second watch
		if quit {
			if _, err := keys.Write([]byte("q")); err != nil {
				t.Fatal(err)
			}
		} else {
			cancel()
		}
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("quit %v: Run: got %v", quit, err)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("quit %v: wait for the end of Run: timed out", quit)
		}
		out.waitFor(t, "\x1b[?1049l") // the restored screen
		cancel()
		_ = keys.Close()
	}
}

// The events of a new watch replace the earlier ones: runs that are not sent again have ended.
func TestFeed(t *testing.T) {
	f := newFeed()
	event := func(cursor uint64, id string) {
		if err := f.add(&holdfastv1.RunEvent{Cursor: cursor, Snapshot: &holdfastv1.Run{RunId: id,
			Phase: holdfastv1.Run_RUNNING}}); err != nil {
			t.Fatal(err)
		}
	}
	all := newRuns()
	take := func() string {
		all.apply(f.take())
		var ids []string
		for _, id := range []string{"a", "b", "c"} {
			if all.active[id] != nil {
				ids = append(ids, id)
			}
		}
		return strings.Join(ids, " ")
	}
	f.begin()
	event(0, "a")
	event(7, "b")
	if got, want := take(), "a b"; got != want {
		t.Errorf("at first: got %s, want %s", got, want)
	}
	event(8, "c")
	if got, want := take(), "a b c"; got != want {
		t.Errorf("one more: got %s, want %s", got, want)
	}
	event(0, "b")
	event(90, "c")
	if got, want := take(), "b c"; got != want {
		t.Errorf("new watch: got %s, want %s", got, want)
	}
	f.fail(errors.New("no peer"))
	if m := f.take(); m.err == nil || m.restart {
		t.Errorf("after an error: got %+v, want the error and the old runs", m)
	}
	f.begin()
	event(91, "a")
	if got, want := take(), "a"; got != want {
		t.Errorf("watched again: got %s, want %s", got, want)
	}
}
