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
	// maxCommand bounds the leases of one command, in bytes. A log entry may have 512
	// KiB; a larger one is always rejected.
	maxCommand = 480 << 10
	// spacing is the minimum time between two commits at 100,000 leases: less than one
	// log entry a second, so that other commands get their share (docs/performance.md).
	// First heartbeats are not spaced.
	// It must stay well below lostAfter, after which a leader counts as hung.
	spacing      = 1250 * time.Millisecond
	spacingFleet = 100_000
	// flushAfter is the delay after which a heartbeat is committed if no caller waits for it.
	flushAfter = 20 * time.Second
)

// commits proposes heartbeats in batches and answers the waiting calls until ctx ends.
func (ts *termState) commits(ctx context.Context) error {
	tick := time.NewTicker(ts.cfg.ClockEvery / 2)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ts.wake:
		case <-tick.C:
		}
		for {
			began := time.Now()
			batch := ts.nextBatch()
			if batch == nil {
				break
			}
			if err := ts.commit(ctx, batch); err != nil {
				return err
			}
			if batch.full {
				continue // waiting only helps a batch that still has room
			}
			if ts.space(ctx, gapFor(ts.live())-time.Since(began)) != nil {
				return nil
			}
		}
	}
}

// space blocks until the next commit may begin: for a time, or until a first heartbeat
// waits. A first heartbeat causes at most one entry, as the grant of its lease did, so it
// need not be spaced. It returns the error of ctx if that ends first.
func (ts *termState) space(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	for !ts.firstWaits() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
			return nil
		case <-ts.first:
		}
	}
	return ctx.Err()
}

// firstWaits reports whether a first heartbeat waits for the next commit.
func (ts *termState) firstWaits() bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.firsts
}

// enqueue queues an entry for the next commit. It is called with the lock held.
func (ts *termState) enqueue(e *entry) {
	e.queued = true
	ts.pending = append(ts.pending, e)
	if !e.ready {
		ts.firsts = true
		notify(ts.first)
	}
	notify(ts.wake)
}

// gapFor returns the minimum time between two commits for a number of leases. It grows
// with the square root. If it were proportional, fleets of a few thousand leases would
// write the most log entries, up to 40 a second. With the square root, agents that send
// one heartbeat a minute cause at most 11 a second, and a commit for 1,000 of them waits
// 125 ms.
func gapFor(leases int) time.Duration {
	return time.Duration(float64(spacing) * math.Sqrt(min(1, float64(leases)/spacingFleet)))
}

// batch is one CheckpointLeases command with the calls that wait for it.
type batch struct {
	cmd   *internalv1.CheckpointLeases
	items []item
	bytes int  // of the leases in cmd
	pools int  // leases of pools in cmd
	full  bool // an entry did not fit
	after int  // number of the leader's pauses before the proposal
}

// add adds an entry to the batch. It reports whether the entry fits.
func (b *batch) add(e *entry, now time.Duration) bool {
	rn := &internalv1.Renewal{}
	if e.latest != nil {
		rn = proto.CloneOf(e.latest)
	}
	rn.Lease = &internalv1.LeaseRef{Kind: e.kind, Id: e.id, Generation: e.gen}
	l := &internalv1.SeenLease{Renewal: rn, AgeMs: (now - e.seen).Milliseconds(), SeenMs: e.seen.Milliseconds()}
	size := proto.Size(l) + leaseOverhead
	if size > maxCommand { // no gateway sends one; record at least the heartbeat
		l.Renewal = &internalv1.Renewal{Lease: rn.GetLease()}
		size = proto.Size(l) + leaseOverhead
	}
	pool := e.kind == internalv1.LeaseRef_POOL
	if n := len(b.items); n == fsm.MaxHeartbeats || n > 0 && b.bytes+size > maxCommand ||
		pool && b.pools == fsm.MaxPoolReports {
		b.full = true
		return false
	}
	if pool {
		b.pools++
	}
	b.bytes += size
	b.cmd.Leases = append(b.cmd.Leases, l)
	b.items = append(b.items, item{key: e.key, gen: e.gen, seen: e.seen, waiters: e.waiters})
	e.waiters, e.queued = nil, false
	return true
}

// leaseOverhead is the number of bytes that a lease needs in a command besides its own
// encoding: tag and length.
const leaseOverhead = 4

// item is an entry as of when it was added to a batch.
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
	if refused, ok := errors.AsType[*fsm.Error](err); ok && refused.Reason == fsm.ReasonStaleEpoch {
		return err
	}
	return nil
}

// nextBatch returns the batch to commit now, or nil if there is nothing to commit.
func (ts *termState) nextBatch() *batch {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.follow()
	now := ts.clock.now()
	b := &batch{cmd: &internalv1.CheckpointLeases{ClockMs: now.Milliseconds()}, after: ts.clock.pauses}
	for len(ts.pending) > 0 && b.add(ts.pending[0], now) {
		ts.pending = ts.pending[1:]
	}
	ts.firsts = false // if the batch is full, the next one follows at once
	for len(ts.unflushed) > 0 && !b.full {
		e := ts.unflushed[0]
		if now-e.unflushedSince < flushAfter {
			break
		}
		if e.seen > e.durable && ts.table[e.key] == e && !e.queued && !b.add(e, now) {
			break
		}
		e.unflushed = false
		ts.unflushed = ts.unflushed[1:]
	}
	if len(b.items) == 0 && (len(ts.order.entries) == 0 || now-ts.recorded < ts.cfg.ClockEvery) {
		return nil
	}
	return b
}

// requeue queues a committed heartbeat for another commit, without its lease generation,
// because the lease expired before the commit. The second commit revives the owner, as if
// the heartbeat had arrived a moment later. It returns false if there is no owner to
// revive. It is called with the lock held.
func (ts *termState) requeue(it item, rn *internalv1.Renewal) bool {
	if it.gen == 0 || len(it.waiters) == 0 || ts.over {
		return false
	}
	e, _ := ts.find(it.key)
	if e == nil {
		return false
	}
	e.seen, e.latest, e.waiters = it.seen, rn, it.waiters
	ts.enqueue(e)
	return true
}

// commit commits a batch and answers the waiting calls. It returns an error only if
// another peer leads now.
func (ts *termState) commit(ctx context.Context, b *batch) error {
	_, err := ts.proposer.Apply(ctx, &internalv1.Command{
		Epoch: ts.term.Epoch,
		Op:    &internalv1.Command_CheckpointLeases{CheckpointLeases: b.cmd},
	})
	ts.metrics.committed(len(b.items), err)
	if err != nil {
		for _, it := range b.items {
			it.answer(notLeader()) // the gateway retries
		}
		return ended(err)
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.recorded = max(ts.recorded, time.Duration(b.cmd.GetClockMs())*time.Millisecond)
	ts.proven = max(ts.proven, b.after)
	ts.follow()
	view := ts.state.View()
	for i, it := range b.items {
		granted := it.gen != 0 && it.kind != internalv1.LeaseRef_PENDING_MACHINE
		if e := ts.table[it.key]; e != nil && e.gen == it.gen && granted {
			// The heartbeat was recorded: follow would have removed the entry if the
			// lease had expired or had another generation.
			e.durable, e.ready = max(e.durable, it.seen), true
			it.answer(ts.renewed(e))
			continue
		}
		l, ok := view.Lease(it.kind, it.id)
		if !ok || l.GetExpiredAt() != nil {
			if ts.requeue(it, b.cmd.GetLeases()[i].GetRenewal()) {
				continue
			}
			out := internalv1.RenewalAnswer_EXPIRED
			if !ok {
				out = internalv1.RenewalAnswer_UNKNOWN_LEASE
			}
			it.answer(&internalv1.RenewalAnswer{Outcome: out})
			continue
		}
		e := ts.put(l)
		if l.GetSeenMs() >= it.seen.Milliseconds() {
			e.durable = max(e.durable, it.seen)
			e.ready = true
		}
		it.answer(ts.renewed(e))
	}
	return nil
}
