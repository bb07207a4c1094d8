package lease

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// sweep expires overdue leases until ctx ends.
func (ts *termState) sweep(ctx context.Context) error {
	tick := time.NewTicker(ts.cfg.Sweep)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			ts.mu.Lock()
			ts.clock.now()
			ts.meter.tick(now)
			ts.follow()
			if len(ts.order.entries) == 0 && len(ts.pending) == 0 {
				// The clock is committed only while there are leases. Without any it must
				// not run ahead of its committed value: the next grant is dated by that
				// value, so it would seem older to the next leader than it is.
				ts.clock.reset(ts.recorded)
			}
			ts.mu.Unlock()
		}
		for {
			more, err := ts.expire(ctx)
			if err != nil {
				return err
			}
			if !more {
				break
			}
		}
	}
}

// expire expires overdue leases, as many as fit in one command, and reports whether more
// are overdue.
func (ts *termState) expire(ctx context.Context) (more bool, err error) {
	ts.mu.Lock()
	now := ts.clock.now()
	over := ts.order.overdue(now, fsm.MaxExpiries)
	more = len(over) == fsm.MaxExpiries
	cmd := &internalv1.ExpireLeases{ClockMs: now.Milliseconds()}
	size := 0
	for i, e := range over {
		ref := &internalv1.LeaseRef{Kind: e.kind, Id: e.id, Generation: e.gen}
		if size += proto.Size(ref) + leaseOverhead; size > maxCommand { // a larger command is always rejected
			for _, later := range over[i:] {
				ts.order.add(later)
			}
			over, more = over[:i], true
			break
		}
		cmd.Leases = append(cmd.Leases, ref)
	}
	ts.mu.Unlock()
	if len(over) == 0 {
		return false, nil
	}
	// A heartbeat that arrives from here on is committed before it is answered, because
	// the committed one is older than the lease's TTL. The log orders heartbeat and
	// expiry, and the FSM refuses an expiry that comes second.
	if err = ts.term.Confirm(ctx); err == nil {
		_, err = ts.proposer.Apply(ctx, &internalv1.Command{
			Epoch: ts.term.Epoch,
			Op:    &internalv1.Command_ExpireLeases{ExpireLeases: cmd},
		})
	}
	ts.metrics.expired(len(over), err)
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.follow()
	for _, e := range over {
		if ts.table[e.key] == e { // not expired, or the outcome is unknown: check it again soon
			ts.order.add(e)
		}
	}
	if err != nil {
		return false, ended(err)
	}
	for _, ref := range cmd.GetLeases() {
		if l, ok := ts.state.View().Lease(ref.GetKind(), ref.GetId()); ok && l.GetExpiredAt() != nil {
			ts.cfg.Logger.Info("lease expired", "kind", ref.GetKind().String(), "id", ref.GetId(), "generation",
				ref.GetGeneration())
		}
	}
	return more, nil
}
