package executor

import (
	"container/heap"
	"context"
	"sync"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// lane is the queue of the polls of one kind of the machines of one provider. Queues are
// independent: a provider that does not answer delays only its own machines.
type lane struct {
	parallel int
	pace     *pacer
	base     time.Duration // period, if the budget allows it
	began    time.Time
	budget   int // calls per second for its polls; 0 for no limit

	// Machines that are due within grain are polled together: a wakeup for each costs
	// more than finding that there is nothing to do.
	grain time.Duration

	mu      sync.Mutex
	wake    chan struct{}
	entries map[string]*entry
	due     dueHeap
	calls   int           // number of calls to poll all machines once
	period  time.Duration // current interval between polls of a machine
}

// entry is one machine in a queue.
type entry struct {
	id      string
	at      time.Time // due time
	calls   int       // maximum number of calls of one poll
	place   int       // in the heap; -1 while it is polled
	again   bool      // poll it again at once
	gone    bool
	skipped int // number of polls in a row that were skipped for a run
	failed  int // number of polls in a row that failed
	mark    any // of the machine's record (View.MachineMark) when it was last read
	settled any // mark with which there was nothing to do
	among   any // mark of all machines (View.MachinesMark) when settled was set
}

func newLane(parallel int, pace *pacer, base time.Duration, budget int, began time.Time) *lane {
	return &lane{
		parallel: parallel,
		pace:     pace,
		base:     base,
		began:    began,
		period:   base,
		budget:   budget,
		wake:     make(chan struct{}, 1),
		entries:  map[string]*entry{},
	}
}

// ensure adds a machine to the queue. A machine that was never polled is due at once, the
// others at their first time since the queue was started.
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

// handover is the time before the start of a term in which polls may have been missed.
const handover = time.Second

// first returns the time of the first poll of a machine. Polls that were missed before
// the term began are spread over a twentieth of the period.
func (l *lane) first(id string) time.Time {
	slot := slotAfter(id, l.period, l.began.Add(-handover))
	if left := l.began.Sub(slot); left >= 0 {
		return l.began.Add(time.Duration(float64(l.period/20) * float64(left) / float64(handover)))
	}
	return slot
}

// drop removes a machine.
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

// repace updates the period from the number of calls and the budget. If the period
// changes, all machines get new times.
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

// done returns a machine to the queue after a poll.
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

// state returns the number of machines in the queue, the delay of the first one, and the period.
func (l *lane) state() (machines int, late, period time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.due) > 0 {
		late = max(0, time.Since(l.due[0].at))
	}
	return len(l.entries), late, l.period
}

// now returns the current period.
func (l *lane) now() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.period
}

// run calls look for each machine that is due. It returns after ctx has ended and the
// last call has returned. A machine for which read returns nil is skipped and costs no
// call.
func (l *lane) run(
	ctx context.Context, read func(*entry) *holdfastv1.Machine, look func(context.Context, *entry, *holdfastv1.Machine),
) error {
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
		select { // first a slot, then the budget: a call that was counted has to be made at once
		case places <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		if err := l.pace.wait(ctx); err != nil {
			return nil //nolint:nilerr // the term has ended
		}
		looks.Go(func() {
			defer func() { <-places }()
			look(ctx, e, m)
			l.done(e)
		})
	}
}

// dueHeap is a heap of machines, ordered by due time.
type dueHeap []*entry

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push implements heap.Interface.
func (h *dueHeap) Push(x any) {
	e, _ := x.(*entry)
	e.place = len(*h)
	*h = append(*h, e)
}

// Pop implements heap.Interface.
func (h *dueHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	*h = old[:len(old)-1]
	e.place = -1
	return e
}
