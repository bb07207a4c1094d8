package lease

import (
	"context"
	"errors"
	"math"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

const (
	maxPerCommand = 4096
	// maxCommand bounds the leases of one command, in bytes: an entry of the log may have 512 KiB,
	// and one that is larger is never taken.
	maxCommand = 480 << 10
	// spacing is the least time between two commits for 100,000 leases (docs/performance.md: at
	// most one entry a second, and others want some too). It must stay well below lostAfter, which
	// calls a leader hung.
	spacing      = 1250 * time.Millisecond
	spacingFleet = 100_000
	// tellAfter is when a heartbeat that nobody waits for goes on record.
	tellAfter = 20 * time.Second
)

// commits puts heartbeats on record, many at once, and answers those who wait.
func (r *reign) commits(ctx context.Context) error {
	tick := time.NewTicker(r.cfg.ClockEvery / 2)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.wake:
		case <-tick.C:
		}
		for {
			began := time.Now()
			batch := r.nextBatch()
			if batch == nil {
				break
			}
			if err := r.commit(ctx, batch); err != nil {
				return err
			}
			if batch.full {
				continue // spacing is for batches that grow while they wait
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(gapFor(r.live()) - time.Since(began)):
			}
		}
	}
}

// gapFor returns the least time between two commits for so many leases. Fewer have to wait less,
// but not in proportion: then fleets of a few thousand would make the most entries, up to 40 a
// second. Like this there are at most 11 of agents that beat once a minute, and a commit for 1,000
// of them waits 125 ms.
func gapFor(leases int) time.Duration {
	return time.Duration(float64(spacing) * math.Sqrt(min(1, float64(leases)/spacingFleet)))
}

// batch is one CheckpointLeases with those who wait for it.
type batch struct {
	cmd   *internalv1.CheckpointLeases
	items []item
	bytes int  // of the leases in cmd
	full  bool // there is more to be committed
	after int  // the leader's pauses before it was proposed
}

// add takes an entry in, unless the batch has no room for it.
func (b *batch) add(e *entry, now time.Duration) bool {
	rn := &internalv1.Renewal{}
	if e.latest != nil {
		rn = proto.CloneOf(e.latest)
	}
	rn.Lease = &internalv1.LeaseRef{Kind: e.kind, Id: e.id, Generation: e.gen}
	l := &internalv1.SeenLease{Renewal: rn, AgeMs: (now - e.seen).Milliseconds(), SeenMs: e.seen.Milliseconds()}
	size := proto.Size(l) + leaseOverhead
	if size > maxCommand { // no gateway sends such a one; that it lives is what counts
		l.Renewal = &internalv1.Renewal{Lease: rn.GetLease()}
		size = proto.Size(l) + leaseOverhead
	}
	if n := len(b.items); n == maxPerCommand || n > 0 && b.bytes+size > maxCommand {
		b.full = true
		return false
	}
	b.bytes += size
	b.cmd.Leases = append(b.cmd.Leases, l)
	b.items = append(b.items, item{key: e.key, gen: e.gen, seen: e.seen, waiters: e.waiters})
	e.waiters, e.queued = nil, false
	return true
}

// leaseOverhead is what a lease takes in a command besides itself, in bytes: its tag and its
// length.
const leaseOverhead = 4

// item is what a batch holds of an entry.
type item struct {
	key
	gen     uint64
	seen    time.Duration
	waiters []reply
}

func (i item) answer(a *internalv1.RenewalAnswer) {
	for _, w := range i.waiters {
		w(a)
	}
}

// ended returns the error of a command if it means that another peer leads now.
func ended(err error) error {
	var refused *fsm.Error
	if errors.As(err, &refused) && refused.Reason == fsm.ReasonStaleEpoch {
		return err
	}
	return nil
}

// nextBatch returns what is to be committed now; nil if there is nothing.
func (r *reign) nextBatch() *batch {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.follow()
	now := r.clock.now()
	b := &batch{cmd: &internalv1.CheckpointLeases{ClockMs: now.Milliseconds()}, after: r.clock.pauses}
	for len(r.pending) > 0 && b.add(r.pending[0], now) {
		r.pending = r.pending[1:]
	}
	for len(r.untold) > 0 && !b.full {
		e := r.untold[0]
		if now-e.untoldAt < tellAfter {
			break
		}
		if e.seen > e.durable && r.table[e.key] == e && !e.queued && !b.add(e, now) {
			break
		}
		e.untold = false
		r.untold = r.untold[1:]
	}
	if len(b.items) == 0 && (len(r.order.entries) == 0 || now-r.recorded < r.cfg.ClockEvery) {
		return nil
	}
	return b
}

// again puts a heartbeat on record once more, without the lease that it came for: that was lost
// before it got there. It brings its owner back then, as it would have if it had come a moment
// later. It says false if there is nothing to bring back. It is called with the lock held.
func (r *reign) again(it item, rn *internalv1.Renewal) bool {
	if it.gen == 0 || len(it.waiters) == 0 || r.over {
		return false
	}
	e, _ := r.find(it.key)
	if e == nil {
		return false
	}
	e.seen, e.latest, e.waiters, e.queued = it.seen, rn, it.waiters, true
	r.pending = append(r.pending, e)
	return true
}

// commit commits a batch and answers those who wait for it. It fails when this peer cannot go on as
// the leader.
func (r *reign) commit(ctx context.Context, b *batch) error {
	_, err := r.proposer.Apply(ctx, &internalv1.Command{FeatureLevel: 1, Epoch: r.term.Epoch, Op: &internalv1.Command_CheckpointLeases{CheckpointLeases: b.cmd}})
	r.metrics.committed(len(b.items), err)
	if err != nil {
		for _, it := range b.items {
			it.answer(notLeader()) // who asks again brings it again
		}
		return ended(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recorded = max(r.recorded, time.Duration(b.cmd.GetClockMs())*time.Millisecond)
	r.proven = max(r.proven, b.after)
	r.follow()
	view := r.state.View()
	for i, it := range b.items {
		if e := r.table[it.key]; e != nil && e.gen == it.gen && it.gen != 0 && it.kind != internalv1.LeaseRef_PENDING_MACHINE {
			// What would have kept it off the record, that the lease is over or has another
			// generation, follow would have seen.
			e.durable, e.ready = max(e.durable, it.seen), true
			it.answer(r.renewed(e))
			continue
		}
		l, ok := view.Lease(it.kind, it.id)
		if !ok || l.GetExpiredAt() != nil {
			if r.again(it, b.cmd.GetLeases()[i].GetRenewal()) {
				continue
			}
			out := internalv1.RenewalAnswer_EXPIRED
			if !ok {
				out = internalv1.RenewalAnswer_UNKNOWN_LEASE
			}
			it.answer(&internalv1.RenewalAnswer{Outcome: out})
			continue
		}
		e := r.put(l)
		if l.GetSeenMs() >= it.seen.Milliseconds() {
			e.durable = max(e.durable, it.seen)
			e.ready = true
		}
		it.answer(r.renewed(e))
	}
	return nil
}
