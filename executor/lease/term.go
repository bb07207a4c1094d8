package lease

import (
	"container/heap"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/cluster/leader"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// termState is the state of the engine in one term.
type termState struct {
	*Engine
	term  leader.Term
	began time.Duration // lease clock

	mu        sync.Mutex
	over      bool
	clock     *clock
	meter     meter
	table     map[key]*entry
	order     deadlines
	revision  uint64        // newest revision of a lease in the table
	followed  *fsm.View     // the view that the table was last updated from
	pending   []*entry      // to commit next: callers wait for them
	unflushed []*entry      // to commit later, oldest first: no caller waits
	firsts    bool          // pending has a first heartbeat
	recorded  time.Duration // the committed lease clock
	proven    int           // number of pauses after which a commit has proven leadership; -1: no commit yet
	wake      chan struct{} // pending is not empty
	first     chan struct{} // pending has got a first heartbeat
}

// newTermState returns the state of a new term, loaded from the replicated leases. The
// clock continues from its committed value.
func newTermState(e *Engine, t leader.Term) *termState {
	view := e.state.View()
	began := time.Duration(view.LeaseClock()) * time.Millisecond
	ts := &termState{
		Engine:   e,
		term:     t,
		began:    began,
		clock:    newClock(began, time.Now()),
		recorded: began,
		proven:   -1,
		table:    map[key]*entry{},
		wake:     make(chan struct{}, 1),
		first:    make(chan struct{}, 1),
	}
	for l := range view.Leases() {
		ts.revision = max(ts.revision, l.GetRevision())
		if l.GetExpiredAt() != nil {
			continue // find looks it up if a heartbeat arrives
		}
		n := newEntry(l)
		n.inherited, n.seen = true, n.durable
		ts.table[n.key] = n
		ts.order.Push(n)
	}
	heap.Init(&ts.order)
	return ts
}

func newEntry(l *internalv1.Lease) *entry {
	ref := l.GetRef()
	seen := time.Duration(l.GetSeenMs()) * time.Millisecond
	return &entry{
		key:       key{ref.GetKind(), ref.GetId()},
		gen:       ref.GetGeneration(),
		ttl:       time.Duration(l.GetTtlMs()) * time.Millisecond,
		seen:      seen,
		durable:   seen,
		interval:  fsm.LifetimeOf(ref.GetKind()).LowLoad,
		ready:     l.GetReady(),
		heapIndex: -1,
	}
}

func (ts *termState) live() int {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return len(ts.order.entries)
}

// end answers all waiting callers with NOT_LEADER, so that they try the next leader.
func (ts *termState) end() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.over = true
	for _, e := range ts.pending {
		item{waiters: e.waiters}.answer(notLeader())
		e.waiters = nil
	}
	ts.pending = nil
}

// follow updates the table with the grants, expiries and releases that have been
// committed. It is called with the lock held.
func (ts *termState) follow() {
	view := ts.state.View()
	if view == ts.followed {
		return
	}
	ts.followed = view
	ts.recorded = max(ts.recorded, time.Duration(view.LeaseClock())*time.Millisecond) // expiries carry it too
	for l := range view.LeasesChangedSince(ts.revision) {
		ts.revision = max(ts.revision, l.GetRevision())
		ts.put(l)
	}
}

// put updates the table with a committed lease and returns its entry, or nil if the lease
// has expired.
func (ts *termState) put(l *internalv1.Lease) *entry {
	k := key{l.GetRef().GetKind(), l.GetRef().GetId()}
	old := ts.table[k]
	if l.GetExpiredAt() != nil {
		if old != nil && old.gen <= l.GetRef().GetGeneration() {
			ts.order.remove(old)
			delete(ts.table, k) // its waiting calls are answered after their commit
		}
		return nil
	}
	if old != nil && old.gen >= l.GetRef().GetGeneration() {
		return old
	}
	n := newEntry(l)
	n.seen = ts.clock.now() // a grant counts as a heartbeat now: the committed clock may be behind
	n.interval = ts.asked(k.kind)
	if k.kind == internalv1.LeaseRef_POOL {
		n.interval = fsm.LifetimeOf(k.kind).Interval // the answer to a registration names it, at any load
	}
	if old != nil {
		ts.order.remove(old)
		n.latest, n.waiters, n.queued = old.latest, old.waiters, old.queued
		if n.queued {
			for i, e := range ts.pending {
				if e == old {
					ts.pending[i] = n
				}
			}
		}
	}
	ts.table[k] = n
	ts.order.add(n)
	return n
}

func (ts *termState) asked(kind internalv1.LeaseRef_Kind) time.Duration {
	return asked(kind, ts.meter.load, ts.meter.quiet())
}

// take implements Engine.Take.
func (ts *termState) take(rn *internalv1.Renewal, answer reply) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.over {
		answer(notLeader())
		return
	}
	ts.meter.count++
	ts.follow() // so that a lease that has just been released is not answered from memory
	k := key{rn.GetLease().GetKind(), rn.GetLease().GetId()}
	e := ts.table[k]
	owner := ts.ownerOf(k, e)
	if !owner.names(rn) {
		answer(&internalv1.RenewalAnswer{Outcome: internalv1.RenewalAnswer_UNKNOWN_LEASE})
		return
	}
	if e == nil {
		var refusal internalv1.RenewalAnswer_Outcome
		if e, refusal = ts.find(k); e == nil {
			answer(&internalv1.RenewalAnswer{Outcome: refusal})
			return
		}
	}
	now := ts.clock.now()
	e.seen, e.inherited, e.latest, e.owner = now, false, rn, owner
	e.interval = ts.asked(k.kind)
	ts.order.advance(e)
	// After a pause another peer may lead, and its lease clock may be ahead. Only a
	// commit proves that this peer still leads. The same holds for a new term, since the
	// pause may have been before the engine started.
	if e.ready && ts.proven == ts.clock.pauses && now-e.durable < e.slack() {
		if !e.unflushed {
			e.unflushed, e.unflushedSince = true, now
			ts.unflushed = append(ts.unflushed, e)
		}
		answer(ts.renewed(e))
		return
	}
	e.waiters = append(e.waiters, answer)
	if !e.queued {
		ts.enqueue(e)
	}
}

func (ts *termState) renewed(e *entry) *internalv1.RenewalAnswer {
	return &internalv1.RenewalAnswer{
		Outcome:    internalv1.RenewalAnswer_RENEWED,
		TtlMs:      e.lasts(e.interval).Milliseconds(),
		IntervalMs: spread(e.kind, e.interval).Milliseconds(),
		At:         timestamppb.New(ts.cfg.Now()),
		PoolName:   e.owner.pool,
	}
}

// find returns a new entry for a lease that is not in the table, or the reason for its
// refusal. It accepts a lease that was granted a moment ago, one that has expired but
// whose owner a heartbeat revives, and a machine that has none yet. The FSM decides the
// outcome of the heartbeat.
func (ts *termState) find(k key) (*entry, internalv1.RenewalAnswer_Outcome) {
	view := ts.state.View()
	switch k.kind {
	case internalv1.LeaseRef_MACHINE:
		m, ok := view.Machine(k.id)
		if !ok {
			return nil, internalv1.RenewalAnswer_UNKNOWN_LEASE
		}
		if m.GetStatus().GetAgentState() == holdfastv1.Agent_EXPIRED ||
			m.GetStatus().GetPhase() == holdfastv1.MachineStatus_RETIRED {
			return nil, internalv1.RenewalAnswer_EXPIRED
		}
	case internalv1.LeaseRef_POOL:
		p, ok := view.Pool(k.id)
		s := p.GetStatus()
		if !ok || s != holdfastv1.Pool_REGISTERED && s != holdfastv1.Pool_HEALTHY && s != holdfastv1.Pool_UNAVAILABLE {
			return nil, internalv1.RenewalAnswer_UNKNOWN_LEASE
		}
	case internalv1.LeaseRef_SERVICE:
		s, ok := view.Service(k.id)
		if !ok {
			return nil, internalv1.RenewalAnswer_UNKNOWN_LEASE
		}
		if s.GetDeregistered() && (!fsm.AutoDeregistered(s)) {
			return nil, internalv1.RenewalAnswer_EXPIRED
		}
	default:
		return nil, internalv1.RenewalAnswer_UNKNOWN_LEASE
	}
	return &entry{key: k, heapIndex: -1}, 0 // for the commit, which puts the lease into the table
}
