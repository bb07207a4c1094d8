package registry

import (
	"context"
	"errors"
	"strconv"

	"github.com/holdfast-metal/holdfast/cluster/call"
	"github.com/holdfast-metal/holdfast/cluster/outcome"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/request"
)

// Leases renews leases at the leader (lease.Gateway). An answer means that the leader has
// recorded the heartbeat. The error is a *outcome.Error; the call may always be
// retried.
type Leases interface {
	Renew(ctx context.Context, r *internalv1.Renewal) (*internalv1.RenewalAnswer, error)
}

var errNoLeases = errors.New("this peer accepts no heartbeats: use another one")

// renew renews a lease at the leader, and returns its answer or an error.
func (s *Heartbeats) renew(
	ctx context.Context, kind internalv1.LeaseRef_Kind, id string, r *internalv1.Renewal,
) (*internalv1.RenewalAnswer, error) {
	r.Lease = &internalv1.LeaseRef{Kind: kind, Id: id}
	if s.leases == nil {
		return nil, &outcome.Error{Outcome: outcome.NotApplied, Err: errNoLeases}
	}
	a, err := s.leases.Renew(ctx, r)
	if err != nil {
		return nil, err
	}
	what, reason := "machine", "MACHINE_NOT_FOUND"
	switch kind {
	case internalv1.LeaseRef_POOL:
		what, reason = "pool", "POOL_NOT_FOUND"
	case internalv1.LeaseRef_SERVICE:
		what, reason = "service", "SERVICE_NOT_FOUND"
	}
	switch a.GetOutcome() {
	case internalv1.RenewalAnswer_RENEWED:
		return a, nil
	case internalv1.RenewalAnswer_EXPIRED:
		if kind == internalv1.LeaseRef_SERVICE {
			return a, nil
		}
		return nil, &fsm.Error{
			Code: fsm.NotFound, Reason: "LEASE_EXPIRED",
			Message: "the lease of " + what + " " + strconv.Quote(id) + " has expired without a heartbeat: register it again",
			Meta:    map[string]string{what + "_id": id},
		}
	}
	return nil, request.NotFound(reason, what, id)
}

// ownPoolsMachine returns an error if a pool's agent renews the lease of a machine in
// another pool. Agents of a single machine have been checked before.
func (s *Heartbeats) ownPoolsMachine(ctx context.Context, id string) error {
	who := auth.From(ctx)
	if !auth.Scoped(who) || who.GetMachineId() != "" {
		return nil
	}
	v := s.State.View()
	for _, pool := range who.GetPools() { // the usual case; the rest handles all others
		if v.InPool(id, pool) && auth.InScope(who, pool) {
			if v.Enrolled(id) {
				return fsm.MachineEnrolled(id)
			}
			return nil
		}
	}
	m, ok := v.Machine(id)
	if !ok { // another peer may have just registered it
		fresh, err := s.Cluster.View(call.WithConsistency(ctx, call.Consistency{}))
		if err != nil {
			return err
		}
		m, ok = fresh.Machine(id)
	}
	if ok && !auth.InScope(who, m.GetSpec().GetPool()) {
		return request.NotFound("MACHINE_NOT_FOUND", "machine", id) // the caller must not learn that it exists
	}
	return nil
}
