package lease

import (
	"container/heap"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// reign is the leases' keeper in one term.
type reign struct {
	*Engine
	term  cluster.Term
	began time.Duration // lease clock

	mu       sync.Mutex
	over     bool
	clock    *clock
	meter    meter
	table    map[key]*entry
	order    deadlines
	revision uint64        // of the leases that are in the table
	followed *fsm.View     // the state that they were taken from
	pending  []*entry      // to be committed, for somebody who waits
	untold   []*entry      // to be committed some time, oldest first
	recorded time.Duration // the lease clock on record
	proven   int           // pauses after which a commit has shown that this peer still leads
	wake     chan struct{}
}

// newReign takes the leases over. The clock goes on from where it is recorded.
func newReign(e *Engine, t cluster.Term) *reign {
	var view records = e.state.View()
	began := time.Duration(view.LeaseClock()) * time.Millisecond
	r := &reign{Engine: e, term: t, began: began, clock: newClock(began, time.Now()), recorded: began, table: map[key]*entry{}, wake: make(chan struct{}, 1)}
	for l := range view.Leases() {
		r.revision = max(r.revision, l.GetRevision())
		if l.GetExpiredAt() != nil {
			continue // looked up when somebody asks
		}
		n := newEntry(l)
		n.inherited, n.seen = true, n.durable
		r.table[n.key] = n
		r.order.Push(n)
	}
	heap.Init(&r.order)
	return r
}

func newEntry(l *internalv1.Lease) *entry {
	ref := l.GetRef()
	seen := time.Duration(l.GetSeenMs()) * time.Millisecond
	return &entry{key: key{ref.GetKind(), ref.GetId()}, gen: ref.GetGeneration(), ttl: time.Duration(l.GetTtlMs()) * time.Millisecond,
		seen: seen, durable: seen, interval: poolQuiet, place: -1}
}

func (r *reign) live() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.order.entries)
}

// end answers everybody who waits: the next leader is to be asked.
func (r *reign) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	for _, e := range r.pending {
		item{waiters: e.waiters}.answer(notLeader())
		e.waiters = nil
	}
	r.pending = nil
}

// follow brings the table up to what is recorded of grants, expiries and ends. It is called with
// the lock held.
func (r *reign) follow() {
	view := r.state.View()
	if view == r.followed {
		return
	}
	r.followed = view
	r.recorded = max(r.recorded, time.Duration(view.LeaseClock())*time.Millisecond) // expiries bring it too
	for l := range records(view).LeasesChangedSince(r.revision) {
		r.revision = max(r.revision, l.GetRevision())
		r.put(l)
	}
}

// put takes a lease as it is recorded into the table, and gives its entry; nil if it is over.
func (r *reign) put(l *internalv1.Lease) *entry {
	k := key{l.GetRef().GetKind(), l.GetRef().GetId()}
	old := r.table[k]
	if l.GetExpiredAt() != nil {
		if old != nil && old.gen <= l.GetRef().GetGeneration() {
			r.order.remove(old)
			delete(r.table, k) // a call that waits for its commit is answered by that
		}
		return nil
	}
	if old != nil && old.gen >= l.GetRef().GetGeneration() {
		return old
	}
	n := newEntry(l)
	n.seen = r.clock.now() // the clock on record may be behind: a grant is heard now
	n.interval = r.asked(k.kind)
	if old != nil {
		r.order.remove(old)
		n.latest, n.waiters, n.queued = old.latest, old.waiters, old.queued
		if n.queued {
			for i, e := range r.pending {
				if e == old {
					r.pending[i] = n
				}
			}
		}
	}
	r.table[k] = n
	r.order.add(n)
	return n
}

func (r *reign) asked(kind internalv1.LeaseRef_Kind) time.Duration {
	return asked(kind, r.meter.load, r.meter.quiet())
}

// take implements Engine.Take.
func (r *reign) take(rn *internalv1.Renewal, answer reply) {
	pool, placed := r.placed(rn)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		answer(notLeader())
		return
	}
	r.meter.count++
	if !placed {
		answer(&internalv1.RenewalAnswer{Outcome: internalv1.RenewalAnswer_UNKNOWN_LEASE})
		return
	}
	r.follow() // a lease that was ended a moment ago is not to be answered from memory
	k := key{rn.GetLease().GetKind(), rn.GetLease().GetId()}
	e := r.table[k]
	if e == nil {
		var refusal internalv1.RenewalAnswer_Outcome
		if e, refusal = r.find(k); e == nil {
			answer(&internalv1.RenewalAnswer{Outcome: refusal})
			return
		}
	}
	now := r.clock.now()
	e.seen, e.inherited, e.latest, e.pool = now, false, rn, pool
	e.interval = r.asked(k.kind)
	r.order.sooner(e)
	// After a pause another peer may lead, whose lease clock went on: only a commit shows that none
	// does.
	if e.ready && r.proven == r.clock.pauses && now-e.durable < e.slack() {
		if !e.untold {
			e.untold, e.untoldAt = true, now
			r.untold = append(r.untold, e)
		}
		answer(r.renewed(e))
		return
	}
	e.waiters = append(e.waiters, answer)
	if !e.queued {
		e.queued = true
		r.pending = append(r.pending, e)
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
}

func (r *reign) renewed(e *entry) *internalv1.RenewalAnswer {
	return &internalv1.RenewalAnswer{
		Outcome: internalv1.RenewalAnswer_RENEWED, TtlMs: e.ttl.Milliseconds(), IntervalMs: spread(e.kind, e.interval).Milliseconds(), At: timestamppb.Now(),
		PoolName: e.pool,
	}
}

// placed returns the pool of the machine that a keepalive is from, and reports whether the
// keepalive names the machine's own pool and provider: the key of a machine is provider, pool and
// id (machine registration §Redis keys). A name that either side leaves out matches.
func (r *reign) placed(rn *internalv1.Renewal) (pool string, ok bool) {
	if rn.GetLease().GetKind() != internalv1.LeaseRef_MACHINE {
		return "", true
	}
	view := r.state.View()
	if rn.GetProviderName() == "" && rn.GetPoolName() != "" && view.InPool(rn.GetLease().GetId(), rn.GetPoolName()) {
		return rn.GetPoolName(), true // without reading the machine
	}
	m, known := view.Machine(rn.GetLease().GetId())
	if !known {
		return "", true // find refuses it
	}
	pool = m.GetSpec().GetPool()
	return pool, match(rn.GetPoolName(), pool) && match(rn.GetProviderName(), m.GetAgent().GetProviderName())
}

func match(a, b string) bool { return a == "" || b == "" || a == b }

// find looks for a lease that the table does not have: one that was granted a moment ago, one that
// is over but whose owner a heartbeat brings back, or a machine that has none yet. What becomes
// of those is the FSM's to say.
func (r *reign) find(k key) (*entry, internalv1.RenewalAnswer_Outcome) {
	view := r.state.View()
	switch k.kind {
	case internalv1.LeaseRef_MACHINE:
		m, ok := view.Machine(k.id)
		if !ok {
			return nil, internalv1.RenewalAnswer_UNKNOWN_LEASE
		}
		if m.GetStatus().GetAgentState() == holdfastv1.Agent_EXPIRED {
			return nil, internalv1.RenewalAnswer_EXPIRED
		}
	case internalv1.LeaseRef_POOL:
		p, ok := view.Pool(k.id)
		if s := p.GetStatus(); !ok || s != holdfastv1.Pool_REGISTERED && s != holdfastv1.Pool_HEALTHY && s != holdfastv1.Pool_UNAVAILABLE {
			return nil, internalv1.RenewalAnswer_UNKNOWN_LEASE
		}
	case internalv1.LeaseRef_SERVICE:
		s, ok := view.Service(k.id)
		if !ok {
			return nil, internalv1.RenewalAnswer_UNKNOWN_LEASE
		}
		if s.GetDeregistered() && (!view.Has(fsm.Level2) || !fsm.AutoDeregistered(s)) {
			return nil, internalv1.RenewalAnswer_EXPIRED
		}
	default:
		return nil, internalv1.RenewalAnswer_UNKNOWN_LEASE
	}
	return &entry{key: k, place: -1}, 0 // for the commit; its lease comes into the table with the record
}
