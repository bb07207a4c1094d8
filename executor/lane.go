package executor

import (
	"container/heap"
	"context"
	"sync"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// lane is the looks of one kind at the machines of one provider. Lanes do not wait for each other: a provider that does not answer holds up its own only.
type lane struct {
	parallel int
	pace     *pacer
	base     time.Duration // the period when the budget allows it
	budget   int           // calls a second that its looks may make; 0: any number
	cost     int           // calls of one look, at most

	mu      sync.Mutex
	wake    chan struct{}
	entries map[string]*entry
	due     dueHeap
	period  time.Duration // now
}

// entry is one machine in a lane.
type entry struct {
	id      string
	at      time.Time
	place   int // in the heap; -1 while it is looked at
	again   bool
	gone    bool
	skipped int // looks in a row that a run had precedence over
	failed  int // looks in a row that found out nothing
}

func newLane(parallel int, pace *pacer, base time.Duration, budget, cost int) *lane {
	return &lane{parallel: parallel, pace: pace, base: base, period: base, budget: budget, cost: cost, wake: make(chan struct{}, 1), entries: map[string]*entry{}}
}

// ensure takes a machine into the lane. One that was never looked at is due at once, the others when their time comes.
func (l *lane) ensure(id string, never bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.entries[id] != nil {
		return
	}
	e := &entry{id: id, at: time.Now()}
	l.entries[id] = e
	l.period = stretched(l.base, len(l.entries)*l.cost, l.budget)
	if !never {
		e.at = slotAfter(id, l.period, e.at)
	}
	heap.Push(&l.due, e)
	l.nudge()
}

// drop takes a machine out.
func (l *lane) drop(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[id]
	if e == nil {
		return
	}
	delete(l.entries, id)
	e.gone = true
	if e.place >= 0 {
		heap.Remove(&l.due, e.place)
	}
	l.period = stretched(l.base, len(l.entries)*l.cost, l.budget)
}

// soon makes a machine due at once.
func (l *lane) soon(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[id]
	switch {
	case e == nil:
	case e.place < 0:
		e.again = true
	default:
		e.at, e.skipped = time.Now(), 0
		heap.Fix(&l.due, e.place)
		l.nudge()
	}
}

// done puts a machine back until its next time.
func (l *lane) done(e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.gone {
		return
	}
	e.at = time.Now()
	if !e.again {
		e.at = slotAfter(e.id, l.period, e.at)
	}
	e.again = false
	heap.Push(&l.due, e)
	l.nudge()
}

func (l *lane) nudge() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// next takes the machine out that is due, or says how long there is none.
func (l *lane) next() (*entry, time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.due) == 0 {
		return nil, time.Hour
	}
	if wait := time.Until(l.due[0].at); wait > 0 {
		return nil, wait
	}
	e, _ := heap.Pop(&l.due).(*entry)
	return e, 0
}

// state gives how many machines are in the lane, how late the first one is, and how often each is looked at.
func (l *lane) state() (machines int, late, period time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.due) > 0 {
		late = max(0, time.Since(l.due[0].at))
	}
	return len(l.entries), late, l.period
}

// now is how often each machine is looked at.
func (l *lane) now() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.period
}

// run calls look for each machine that is due, until the context ends and the last one has returned. A machine that read does not give costs no call.
func (l *lane) run(ctx context.Context, read func(*entry) *holdfastv1.Machine, look func(context.Context, *entry, *holdfastv1.Machine)) error {
	var looks sync.WaitGroup
	defer looks.Wait()
	places := make(chan struct{}, l.parallel)
	for {
		e, wait := l.next()
		if e == nil {
			t := time.NewTimer(wait)
			select {
			case <-ctx.Done():
			case <-t.C:
			case <-l.wake:
			}
			t.Stop()
			if ctx.Err() != nil {
				return nil
			}
			continue
		}
		m := read(e)
		if m == nil {
			l.done(e)
			continue
		}
		select { // a place first: a call that was paid for has to be made then
		case places <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		if err := l.pace.wait(ctx); err != nil {
			return nil //nolint:nilerr // the term is over
		}
		looks.Go(func() {
			defer func() { <-places }()
			look(ctx, e, m)
			l.done(e)
		})
	}
}

// dueHeap orders machines by when they are due.
type dueHeap []*entry

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push is for container/heap.
func (h *dueHeap) Push(x any) {
	e, _ := x.(*entry)
	e.place = len(*h)
	*h = append(*h, e)
}

// Pop is for container/heap.
func (h *dueHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	*h = old[:len(old)-1]
	e.place = -1
	return e
}
