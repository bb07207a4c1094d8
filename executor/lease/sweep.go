package lease

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// sweep declares losses until ctx ends.
func (r *reign) sweep(ctx context.Context) error {
	tick := time.NewTicker(r.cfg.Sweep)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			r.mu.Lock()
			r.clock.now()
			r.meter.tick(now)
			r.follow()
			if len(r.order.entries) == 0 && len(r.pending) == 0 {
				// The clock goes on record while there are leases only. It must not run ahead of
				// the record without any: the next grant takes its time from there, and would seem
				// to be that much older to the next leader.
				r.clock.stand(r.recorded)
			}
			r.mu.Unlock()
		}
		for {
			more, err := r.expire(ctx)
			if err != nil {
				return err
			}
			if !more {
				break
			}
		}
	}
}

// expire ends overdue leases, as many as one command holds, and reports whether more of them were
// due.
func (r *reign) expire(ctx context.Context) (more bool, err error) {
	r.mu.Lock()
	now := r.clock.now()
	over := r.order.overdue(now, maxPerCommand)
	more = len(over) == maxPerCommand
	cmd := &internalv1.ExpireLeases{ClockMs: now.Milliseconds()}
	size := 0
	for i, e := range over {
		ref := &internalv1.LeaseRef{Kind: e.kind, Id: e.id, Generation: e.gen}
		if size += proto.Size(ref) + leaseOverhead; size > maxCommand { // a command that is too large would never be applied
			for _, later := range over[i:] {
				r.order.add(later)
			}
			over, more = over[:i], true
			break
		}
		cmd.Leases = append(cmd.Leases, ref)
	}
	r.mu.Unlock()
	if len(over) == 0 {
		return false, nil
	}
	// A heartbeat that comes from here on is recorded before it is answered: the one on record is
	// older than the lease is long. The log orders the two, and the FSM refuses an expiry that
	// comes second.
	if err = r.term.Confirm(ctx); err == nil {
		_, err = r.proposer.Apply(ctx, &internalv1.Command{FeatureLevel: 1, Epoch: r.term.Epoch, Op: &internalv1.Command_ExpireLeases{ExpireLeases: cmd}})
	}
	r.metrics.expired(len(over), err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.follow()
	for _, e := range over {
		if r.table[e.key] == e { // it is not over after all, or nobody knows: look again soon
			r.order.add(e)
		}
	}
	if err != nil {
		return false, ended(err)
	}
	for _, ref := range cmd.GetLeases() {
		if l, ok := r.state.View().Lease(ref.GetKind(), ref.GetId()); ok && l.GetExpiredAt() != nil {
			r.cfg.Logger.Info("lease is lost", "kind", ref.GetKind().String(), "id", ref.GetId(), "generation", ref.GetGeneration())
		}
	}
	return more, nil
}
