package monitor

import (
	"container/heap"
	"context"
	"sync"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// pollQueue is the queue of the polls of one kind of the machines of one provider. Queues are
// independent: a provider that does not answer delays only its own machines.
type pollQueue struct {
	parallel int
	limit    *limiter
	base     time.Duration // period, if the budget allows it
	began    time.Time
	budget   int // calls per second for its polls; 0 for no limit

	// Machines that are due within batchWindow are polled together: a wakeup for each costs
	// more than finding that there is nothing to do.
	batchWindow time.Duration

	mu      sync.Mutex
	wake    chan struct{}
	entries map[string]*pollEntry
	due     dueHeap
	calls   int           // number of calls to poll all machines once
	period  time.Duration // current interval between polls of a machine
}

// pollEntry is one machine in a queue.
type pollEntry struct {
	id        string
	at        time.Time // due time
	calls     int       // maximum number of calls of one poll
	heapIndex int       // in the heap; -1 while it is polled
	again     bool      // poll it again at once
	gone      bool
	skipped   int // number of polls in a row that were skipped for a run
	failed    int // number of polls in a row that failed
	mark      any // of the machine's record (View.MachineMark) when it was last read
	settled   any // mark with which there was nothing to do
	among     any // mark of all machines (View.MachinesMark) when settled was set
}

func newPollQueue(parallel int, limit *limiter, base time.Duration, budget int, began time.Time) *pollQueue {
	return &pollQueue{
		parallel: parallel,
		limit:    limit,
		base:     base,
		began:    began,
		period:   base,
		budget:   budget,
		wake:     make(chan struct{}, 1),
		entries:  map[string]*pollEntry{},
	}
}

// enqueue adds a machine to the queue. A machine that was never polled is due at once, the
// others at their first time since the queue was started.
func (q *pollQueue) enqueue(id string, calls int, never bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.entries[id]; e != nil {
		q.calls += calls - e.calls
		e.calls = calls
		return
	}
	e := &pollEntry{id: id, at: time.Now(), calls: calls}
	q.entries[id] = e
	q.calls += calls
	q.repace()
	if !never {
		e.at = q.first(id)
	}
	heap.Push(&q.due, e)
	q.nudge()
}

// handover is the time before the start of a term in which polls may have been missed.
const handover = time.Second

// first returns the time of the first poll of a machine. Polls that were missed before
// the term began are spread over a twentieth of the period.
func (q *pollQueue) first(id string) time.Time {
	slot := slotAfter(id, q.period, q.began.Add(-handover))
	if left := q.began.Sub(slot); left >= 0 {
		return q.began.Add(time.Duration(float64(q.period/20) * float64(left) / float64(handover)))
	}
	return slot
}

// drop removes a machine.
func (q *pollQueue) drop(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[id]
	if e == nil {
		return
	}
	delete(q.entries, id)
	e.gone = true
	if e.heapIndex >= 0 {
		heap.Remove(&q.due, e.heapIndex)
	}
	q.calls -= e.calls
	q.repace()
}

// repace updates the period from the number of calls and the budget. If the period
// changes, all machines get new times.
func (q *pollQueue) repace() {
	period := stretched(q.base, q.calls, q.budget)
	if period == q.period {
		return
	}
	q.period = period
	now := time.Now()
	for _, e := range q.due {
		if e.at.After(now) {
			e.at = slotAfter(e.id, period, now)
		}
	}
	heap.Init(&q.due)
}

// pollNow makes a machine due at once.
func (q *pollQueue) pollNow(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[id]
	switch {
	case e == nil:
	case e.heapIndex < 0:
		e.again = true
	default:
		e.at, e.skipped = time.Now(), 0
		heap.Fix(&q.due, e.heapIndex)
		q.nudge()
	}
}

// done returns a machine to the queue after a poll.
func (q *pollQueue) done(e *pollEntry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e.gone {
		return
	}
	e.at = time.Now()
	if !e.again {
		e.at = slotAfter(e.id, q.period, e.at)
	}
	e.again = false
	heap.Push(&q.due, e)
	q.nudge()
}

func (q *pollQueue) nudge() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// next removes and returns the first machine if it is due. Otherwise it returns nil and the time
// until a machine is due.
func (q *pollQueue) next() (*pollEntry, time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.due) == 0 {
		return nil, time.Hour
	}
	if wait := time.Until(q.due[0].at); wait > 0 {
		return nil, wait
	}
	e, _ := heap.Pop(&q.due).(*pollEntry)
	return e, 0
}

// state returns the number of machines in the queue, the delay of the first one, and the period.
func (q *pollQueue) state() (machines int, late, period time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.due) > 0 {
		late = max(0, time.Since(q.due[0].at))
	}
	return len(q.entries), late, q.period
}

// now returns the current period.
func (q *pollQueue) now() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.period
}

// run calls poll for each machine that is due. It returns after ctx has ended and the
// last call has returned. A machine for which read returns nil is skipped and costs no
// call.
func (q *pollQueue) run(
	ctx context.Context,
	read func(*pollEntry) *holdfastv1.Machine,
	poll func(context.Context, *pollEntry, *holdfastv1.Machine),
) error {
	var polls sync.WaitGroup
	defer polls.Wait()
	slots := make(chan struct{}, q.parallel)
	for {
		e, wait := q.next()
		if e == nil {
			t := time.NewTimer(max(wait, q.batchWindow))
			select {
			case <-ctx.Done():
			case <-t.C:
			case <-q.wake:
			}
			t.Stop()
			if ctx.Err() != nil {
				return nil
			}
			continue
		}
		m := read(e)
		if m == nil {
			q.done(e)
			continue
		}
		select { // first a slot, then the budget: a call that was counted has to be made at once
		case slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		if err := q.limit.wait(ctx); err != nil {
			return nil //nolint:nilerr // the term has ended
		}
		polls.Go(func() {
			defer func() { <-slots }()
			poll(ctx, e, m)
			q.done(e)
		})
	}
}

// dueHeap is a heap of machines, ordered by due time.
type dueHeap []*pollEntry

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapIndex, h[j].heapIndex = i, j
}

// Push implements heap.Interface.
func (h *dueHeap) Push(x any) {
	e, _ := x.(*pollEntry)
	e.heapIndex = len(*h)
	*h = append(*h, e)
}

// Pop implements heap.Interface.
func (h *dueHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	*h = old[:len(old)-1]
	e.heapIndex = -1
	return e
}
