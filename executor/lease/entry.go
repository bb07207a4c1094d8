package lease

import (
	"container/heap"
	"time"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// slackMax is how much older than the newest heartbeat the one on record may be. A new leader adds
// as much to the deadlines that it inherits.
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
	interval  time.Duration // asked for last; pools are given three of them
	seen      time.Duration // the newest heartbeat, the grant included
	durable   time.Duration // the newest one on record
	inherited bool          // nothing was heard of it in this leadership
	ready     bool          // its owner has what a heartbeat changes: it was recorded once in this leadership
	latest    *internalv1.Renewal
	pool      string // of the machine, as of its newest keepalive

	queued   bool // for the next commit
	waiters  []reply
	untold   bool // seen is newer than durable, and nobody waits for it
	untoldAt time.Duration
	place    int // in the heap; -1: not in it
}

// reply is called once with what became of a heartbeat. It must not block.
type reply func(*internalv1.RenewalAnswer)

// slack is how far seen may run ahead of durable.
func (e *entry) slack() time.Duration { return min(slackMax, e.ttl/2) }

// due is when the lease is over unless there is another heartbeat.
func (e *entry) due() time.Duration {
	ttl := e.ttl
	if e.kind == internalv1.LeaseRef_POOL {
		interval := e.interval
		if e.inherited {
			interval = poolQuiet // the leader before may have asked for it
		}
		ttl = max(ttl, missedBeats*interval)
	}
	if e.inherited {
		ttl += e.slack()
	}
	return e.seen + ttl
}

// deadlines orders entries by when they have to be looked at: no later than they are due. A
// heartbeat that puts off when an entry is due does not move it: that is seen to when its turn
// comes.
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
	d.entries[i].place, d.entries[j].place = i, j
}

// Push implements heap.Interface.
func (d *deadlines) Push(x any) {
	e := x.(*entry)
	e.place = len(d.entries)
	d.entries, d.at = append(d.entries, e), append(d.at, e.due())
}

// Pop implements heap.Interface.
func (d *deadlines) Pop() any {
	n := len(d.entries) - 1
	e := d.entries[n]
	d.entries[n] = nil
	d.entries, d.at = d.entries[:n], d.at[:n]
	e.place = -1
	return e
}

// add puts an entry in, or where it belongs now.
func (d *deadlines) add(e *entry) {
	if e.place >= 0 {
		d.at[e.place] = e.due()
		heap.Fix(d, e.place)
		return
	}
	heap.Push(d, e)
}

// sooner moves an entry that is due before it would be looked at: it was inherited, or asked for
// fewer heartbeats before.
func (d *deadlines) sooner(e *entry) {
	if e.place >= 0 && e.due() < d.at[e.place] {
		d.add(e)
	}
}

func (d *deadlines) remove(e *entry) {
	if e.place >= 0 {
		heap.Remove(d, e.place)
	}
}

// overdue takes out at most limit entries that are over.
func (d *deadlines) overdue(now time.Duration, limit int) []*entry {
	var over []*entry
	for len(d.entries) > 0 && d.at[0] <= now && len(over) < limit {
		e := d.entries[0]
		if due := e.due(); due > now { // there was a heartbeat meanwhile
			d.at[0] = due
			heap.Fix(d, 0)
			continue
		}
		heap.Pop(d)
		over = append(over, e)
	}
	return over
}
