package executor

import (
	"container/heap"
	"context"
	"sync"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// lane is the looks of one kind at the machines of one provider. Lanes do not wait for each other:
// a provider that does not answer holds up its own only.
type lane struct {
	parallel int
	pace     *pacer
	base     time.Duration // the period when the budget allows it
	began    time.Time
	budget   int           // calls a second that its looks may make; 0: any number
	grain    time.Duration // machines that are due within it are looked at together: to wake up for each costs more than to find that there is nothing to do

	mu      sync.Mutex
	wake    chan struct{}
	entries map[string]*entry
	due     dueHeap
	calls   int           // that looking at all of them makes
	period  time.Duration // now
}

// entry is one machine in a lane.
type entry struct {
	id      string
	at      time.Time
	calls   int // that a look makes, at most
	place   int // in the heap; -1 while it is looked at
	again   bool
	gone    bool
	skipped int // looks in a row that a run had precedence over
	failed  int // looks in a row that found out nothing
	mark    any // of the machine's record (View.MachineMark), as it was read last
	settled any // the mark with which there was nothing to do
	among   any // the mark of all machines (View.MachinesMark) when this one was found settled
}

func newLane(parallel int, pace *pacer, base time.Duration, budget int, began time.Time) *lane {
	return &lane{parallel: parallel, pace: pace, base: base, began: began, period: base, budget: budget, wake: make(chan struct{}, 1), entries: map[string]*entry{}}
}

// ensure takes a machine into the lane. One that was never looked at is due at once, the others at
// their first time since the lane began.
func (l *lane) ensure(id string, calls int, never bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.entries[id]; e != nil {
		l.calls += calls - e.calls
		e.calls = calls
		return
	}
	e := &entry{id: id, at: time.Now(), calls: calls}
	l.entries[id] = e
	l.calls += calls
	l.repace()
	if !never {
		e.at = l.first(id)
	}
	heap.Push(&l.due, e)
	l.nudge()
}

// handover is how long before a term began its predecessor may have left out looks.
const handover = time.Second

// first returns the first time at which a machine is looked at. What the last leader may have left
// out is made up for over some time.
func (l *lane) first(id string) time.Time {
	slot := slotAfter(id, l.period, l.began.Add(-handover))
	if left := l.began.Sub(slot); left >= 0 {
		return l.began.Add(time.Duration(float64(l.period/20) * float64(left) / float64(handover)))
	}
	return slot
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
	l.calls -= e.calls
	l.repace()
}

// repace finds out how often machines can be looked at. With another period all have other places
// in it.
func (l *lane) repace() {
	period := stretched(l.base, l.calls, l.budget)
	if period == l.period {
		return
	}
	l.period = period
	now := time.Now()
	for _, e := range l.due {
		if e.at.After(now) {
			e.at = slotAfter(e.id, period, now)
		}
	}
	heap.Init(&l.due)
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

// state returns how many machines are in the lane, how late the first one is, and how often each is
// looked at.
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

// run calls look for each machine that is due, until the context ends and the last one has
// returned. A machine that read does not give costs no call.
func (l *lane) run(ctx context.Context, read func(*entry) *holdfastv1.Machine, look func(context.Context, *entry, *holdfastv1.Machine)) error {
	var looks sync.WaitGroup
	defer looks.Wait()
	places := make(chan struct{}, l.parallel)
	for {
		e, wait := l.next()
		if e == nil {
			t := time.NewTimer(max(wait, l.grain))
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
