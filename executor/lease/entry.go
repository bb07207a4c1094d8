package lease

import (
	"container/heap"
	"time"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// slackMax is the maximum age difference between the newest heartbeat and the newest
// committed one. A new leader adds the same amount to the deadlines that it inherits.
const slackMax = 30 * time.Second

type key struct {
	kind internalv1.LeaseRef_Kind
	id   string
}

// entry is a lease in the leader's memory. All times are on the lease clock.
type entry struct {
	key
	gen       uint64
	ttl       time.Duration
	interval  time.Duration // requested last; a pool is lost after three of them
	seen      time.Duration // time of the newest heartbeat, or of the grant
	durable   time.Duration // time of the newest committed heartbeat
	inherited bool          // no heartbeat has arrived in this term
	ready     bool          // a heartbeat of this generation was committed, so the owner's state is up to date
	latest    *internalv1.Renewal
	owner     owner // as of its newest heartbeat

	queued         bool // for the next commit
	waiters        []reply
	unflushed      bool // seen is newer than durable, and no caller waits for the commit
	unflushedSince time.Duration
	heapIndex      int // in the heap; -1 if it is not in the heap
}

// reply is called once with the answer to a heartbeat. It must not block.
type reply func(*internalv1.RenewalAnswer)

// slack returns how far seen may run ahead of durable.
func (e *entry) slack() time.Duration { return min(slackMax, e.ttl/2) }

// due returns when the lease expires unless there is another heartbeat.
func (e *entry) due() time.Duration {
	if e.inherited {
		// The previous leader may have requested the longest interval.
		return e.seen + e.lasts(fsm.LifetimeOf(e.kind).LowLoad) + e.slack()
	}
	return e.seen + e.lasts(e.interval)
}

// lasts returns how long the lease lasts if its owner sends heartbeats at an interval.
func (e *entry) lasts(interval time.Duration) time.Duration {
	return fsm.LifetimeOf(e.kind).Last(e.ttl, interval)
}

// deadlines is a heap of entries, ordered by when they have to be checked: no later than
// they are due. A heartbeat that moves the due time of an entry to later does not move
// the entry: overdue does so when the old time comes.
type deadlines struct {
	entries []*entry
	at      []time.Duration
}

// Len implements heap.Interface.
func (d *deadlines) Len() int { return len(d.entries) }

// Less implements heap.Interface.
func (d *deadlines) Less(i, j int) bool { return d.at[i] < d.at[j] }

// Swap implements heap.Interface.
func (d *deadlines) Swap(i, j int) {
	d.entries[i], d.entries[j] = d.entries[j], d.entries[i]
	d.at[i], d.at[j] = d.at[j], d.at[i]
	d.entries[i].heapIndex, d.entries[j].heapIndex = i, j
}

// Push implements heap.Interface.
func (d *deadlines) Push(x any) {
	e := x.(*entry)
	e.heapIndex = len(d.entries)
	d.entries, d.at = append(d.entries, e), append(d.at, e.due())
}

// Pop implements heap.Interface.
func (d *deadlines) Pop() any {
	n := len(d.entries) - 1
	e := d.entries[n]
	d.entries[n] = nil
	d.entries, d.at = d.entries[:n], d.at[:n]
	e.heapIndex = -1
	return e
}

// add inserts an entry, or moves it to its current due time.
func (d *deadlines) add(e *entry) {
	if e.heapIndex >= 0 {
		d.at[e.heapIndex] = e.due()
		heap.Fix(d, e.heapIndex)
		return
	}
	heap.Push(d, e)
}

// advance moves an entry forward if it is now due before its next check: it was
// inherited, or its requested interval was longer before.
func (d *deadlines) advance(e *entry) {
	if e.heapIndex >= 0 && e.due() < d.at[e.heapIndex] {
		d.add(e)
	}
}

func (d *deadlines) remove(e *entry) {
	if e.heapIndex >= 0 {
		heap.Remove(d, e.heapIndex)
	}
}

// overdue removes and returns at most limit entries whose time has come.
func (d *deadlines) overdue(now time.Duration, limit int) []*entry {
	var over []*entry
	for len(d.entries) > 0 && d.at[0] <= now && len(over) < limit {
		e := d.entries[0]
		if due := e.due(); due > now { // a heartbeat arrived meanwhile
			d.at[0] = due
			heap.Fix(d, 0)
			continue
		}
		heap.Pop(d)
		over = append(over, e)
	}
	return over
}
