package wave

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// cluster ends each run when the next one is started or the wave waits, and counts them.
type cluster struct {
	mu           sync.Mutex
	started      []string
	active, most int
	events       chan *holdfastv1.Run
	end          func(machine string) holdfastv1.Run_Phase
	refuse       string
}

func (c *cluster) Start(ctx context.Context, machine string) (*holdfastv1.Run, error) {
	if machine == c.refuse {
		return nil, errors.New("machine has an active run")
	}
	c.mu.Lock()
	c.started = append(c.started, machine)
	c.active++
	c.most = max(c.most, c.active)
	c.mu.Unlock()
	select {
	case c.events <- &holdfastv1.Run{RunId: "run-" + machine, MachineId: machine, Phase: c.end(machine), Revision: 2}:
	case <-ctx.Done():
	}
	return &holdfastv1.Run{RunId: "run-" + machine, MachineId: machine, Phase: holdfastv1.Run_PENDING, Revision: 1}, nil
}

func (c *cluster) Watch(ctx context.Context, f func(*holdfastv1.Run) error) error {
	for {
		select {
		case r := <-c.events:
			c.mu.Lock()
			c.active--
			c.mu.Unlock()
			if err := f(r); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func machines(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("m-%d", i))
	}
	return all
}

func TestWave(t *testing.T) {
	for _, tt := range []struct {
		name               string
		parallel, failures int
		known              []*holdfastv1.Run
		refuse             string
		fail               string
		want               Progress
		started            int
	}{
		{name: "success", parallel: 3, want: Progress{Total: 10, Started: 10, Succeeded: 10}, started: 10},
		{name: "failure above the limit", parallel: 1, fail: "m-4",
			want: Progress{Total: 10, Started: 5, Succeeded: 4, Failed: 1}, started: 5},
		{name: "allowed failure", parallel: 1, failures: 1, fail: "m-4",
			want: Progress{Total: 10, Started: 10, Succeeded: 9, Failed: 1}, started: 10},
		{name: "refusal", parallel: 1, refuse: "m-2", want: Progress{Total: 10, Started: 2, Succeeded: 2,
			Refused: 1}, started: 2},
		{name: "earlier failures count", parallel: 2,
			known: []*holdfastv1.Run{{MachineId: "x", Phase: holdfastv1.Run_CANCELED}},
			want:  Progress{Total: 11, Started: 1, Failed: 1}},
		{name: "earlier runs are not repeated", parallel: 2,
			known: []*holdfastv1.Run{{MachineId: "x", Phase: holdfastv1.Run_SUCCEEDED}},
			want:  Progress{Total: 11, Started: 11, Succeeded: 11}, started: 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &cluster{events: make(chan *holdfastv1.Run, 100), refuse: tt.refuse, end: func(m string) holdfastv1.Run_Phase {
				if m == tt.fail {
					return holdfastv1.Run_FAILED
				}
				return holdfastv1.Run_SUCCEEDED
			}}
			var ended, refused int
			w := New(Config{Machines: machines(10), Known: tt.known, Parallel: tt.parallel, Failures: tt.failures,
				Refused: func(string, error) error { refused++; return nil }, Ended: func(*holdfastv1.Run, Progress) { ended++ }},
				c)
			got, err := w.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("progress (-want +got):\n%s", diff)
			}
			if len(c.started) != tt.started || c.most > tt.parallel {
				t.Errorf("got %d starts, %d at once, want %d, at most %d at once", len(c.started), c.most, tt.started, tt.parallel)
			}
			if ended != got.Succeeded+got.Failed || refused != got.Refused {
				t.Errorf("got %d ends and %d refusals, want %d and %d", ended, refused, got.Succeeded+got.Failed, got.Refused)
			}
		})
	}
}

// Ctrl-C does not affect the runs, and reports the progress.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := &cluster{events: make(chan *holdfastv1.Run, 100), end: func(m string) holdfastv1.Run_Phase {
		if m == "m-1" {
			cancel()
		}
		return holdfastv1.Run_RUNNING
	}}
	w := New(Config{Machines: machines(3), Parallel: 3, Refused: func(string, error) error { return nil },
		Ended: func(*holdfastv1.Run, Progress) {}}, c)
	p, err := w.Run(ctx)
	if !errors.Is(err, context.Canceled) || p.Succeeded+p.Failed+p.Refused != 0 || p.Total != 3 {
		t.Errorf("got progress %+v, error %v, want no end and context.Canceled", p, err)
	}
}

// An unavailable cluster is not a refusal: the machine is neither started nor counted as refused.
func TestUnavailableCluster(t *testing.T) {
	gone := errors.New("no peer answers")
	c := &cluster{events: make(chan *holdfastv1.Run, 100), refuse: "m-1",
		end: func(string) holdfastv1.Run_Phase { return holdfastv1.Run_RUNNING }}
	w := New(Config{Machines: machines(3), Parallel: 3, Failures: 3, Refused: func(string, error) error { return gone },
		Ended: func(*holdfastv1.Run, Progress) {}}, c)
	p, err := w.Run(t.Context())
	if want := (Progress{Total: 3, Started: 1}); !errors.Is(err, gone) || p != want {
		t.Errorf("got progress %+v, error %v, want %+v and %v", p, err, want, gone)
	}
}
