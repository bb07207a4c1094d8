package turnstile

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// Of runs of several steps, some of them canceled, there are never more between two steps than
// there are places, none that begins passes one that waits to continue, and all finish.
func TestTurnstileProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		places := rapid.IntRange(1, 4).Draw(rt, "places")
		walks := rapid.SliceOfN(rapid.Custom(drawWalk), 1, 20).Draw(rt, "walks")
		h := &hall{places: places}
		synctest.Test(t, func(t *testing.T) {
			h.Turnstile, h.done = New(places), make(chan struct{}, len(walks))
			h.drive(t.Context(), walks)
		})
		for _, p := range h.problems {
			rt.Error(p)
		}
	})
}

// walk is a run. It begins with a place.
type walk struct {
	Class   Class
	Steps   []time.Duration // of each attempt, without a place
	Between time.Duration   // with a place
	Cancel  time.Duration   // after its begin; 0 for never
}

func drawWalk(t *rapid.T) walk {
	ms := func(name string, most int) time.Duration {
		return time.Duration(rapid.IntRange(0, most).Draw(t, name)) * time.Millisecond
	}
	w := walk{
		Class:   rapid.SampledFrom([]Class{Urgent, Ordinary}).Draw(t, "class"),
		Between: ms("between", 5),
		Cancel:  ms("cancel", 20),
	}
	for range rapid.IntRange(1, 4).Draw(t, "steps") {
		w.Steps = append(w.Steps, ms("step", 5))
	}
	return w
}

// hall drives walks, and counts those between two steps.
type hall struct {
	*Turnstile
	places int
	done   chan struct{}

	mu       sync.Mutex
	held     [classes]int
	waiting  [classes]int
	problems []string
}

// drive begins walks in order if there are places, until all have ended.
func (h *hall) drive(ctx context.Context, walks []walk) {
	begun := make([]bool, len(walks))
	for ended := 0; ended < len(walks); {
		for i, w := range walks {
			if begun[i] {
				continue
			}
			synctest.Wait() // until all others wait, so that their count is exact
			waiting := h.count(&h.waiting, w.Class, 0)
			if begun[i] = h.TryEnter(w.Class); !begun[i] {
				continue
			}
			if waiting > 0 {
				h.problem("a run of class %v began while %d waited to continue", w.Class, waiting)
			}
			h.count(&h.held, w.Class, 1)
			go h.walk(ctx, w)
		}
		done := h.done
		if slices.Contains(begun, false) {
			done = nil // only Freed may begin the next one
		}
		select {
		case <-done:
			ended++
		case <-h.Freed():
		case <-time.After(time.Hour):
			h.problem("got %d ended runs, want %d", ended, len(walks))
			return
		}
	}
}

func (h *hall) walk(ctx context.Context, w walk) {
	defer func() { h.done <- struct{}{} }()
	if w.Cancel > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, w.Cancel)
		defer stop()
	}
	for i, d := range w.Steps {
		if i > 0 {
			h.count(&h.waiting, w.Class, 1)
			err := h.Enter(ctx, w.Class)
			h.count(&h.waiting, w.Class, -1)
			if err != nil {
				return
			}
			h.count(&h.held, w.Class, 1)
		}
		time.Sleep(w.Between) // sleep: fake clock
		h.count(&h.held, w.Class, -1)
		h.Leave(w.Class)
		time.Sleep(d) // sleep: fake clock
	}
}

// count changes a number of runs of a class, and returns it.
func (h *hall) count(of *[classes]int, c Class, by int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if of[c] += by; of == &h.held && of[c] > h.places {
		h.problems = append(h.problems, fmt.Sprintf("got %d runs of class %v between two steps, want at most %d", of[c], c,
			h.places))
	}
	return of[c]
}

func (h *hall) problem(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.problems = append(h.problems, fmt.Sprintf(format, args...))
}
