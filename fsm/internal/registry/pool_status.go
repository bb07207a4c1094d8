package registry

import (
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/events"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// drainFor is the time from the deregistration of a pool to its archival (docs/clients.md,
// 001).
const drainFor = 5 * time.Minute

// managed reports whether a pool has a manager that is registered or may return.
func managed(p *holdfastv1.Pool) bool {
	return p.GetStatus() != holdfastv1.Pool_STATUS_UNSPECIFIED && p.GetStatus() != holdfastv1.Pool_ARCHIVED
}

func movePool(t *core.Tx, p *holdfastv1.Pool, to holdfastv1.Pool_Status, reason string) {
	if p.GetStatus() != to {
		p.Status, p.StatusChangedAt = to, t.Now
		events.AddEvent(t, poolEvent(p, reason))
	}
	p.StatusReason = reason
}

// poolEvent returns the event of a pool that has entered its status.
func poolEvent(p *holdfastv1.Pool, reason string) *holdfastv1.Event {
	return &holdfastv1.Event{Type: "pool." + strings.ToLower(p.GetStatus().String()), Pool: &holdfastv1.Pool{
		PoolId: p.GetPoolId(), Provider: p.GetProvider(), Status: p.GetStatus(), StatusReason: reason,
		StatusChangedAt: p.GetStatusChangedAt(),
		Region:          p.GetRegion(), Endpoint: p.GetEndpoint(), NodeId: p.GetNodeId(),
	}}
}

func putPool(t *core.Tx, p *holdfastv1.Pool) {
	p.UpdatedAt = t.Now
	p.Machines, p.MachinesReady, p.AvailableVramGb, p.LastHeartbeat = 0, 0, 0, nil // computed on read
	p.AvailableVramPartial = false                                                 // the same
	t.Pools.Put(p)
}

// wholePool returns a copy of a pool with the fields that are computed on read.
func wholePool(s *core.State, p *holdfastv1.Pool) *holdfastv1.Pool {
	p = proto.CloneOf(p)
	p.Machines = int32(countPool(s, schema.MachinesByPool, p.GetPoolId()))
	p.MachinesReady = int32(countPool(s, schema.MachinesPoolReady, p.GetPoolId()))
	free, partial := 0.0, false
	for _, g := range p.GetGpus() {
		free += g.GetAvailableVramGb()
		partial = partial || g.AvailableVramGb == nil
	}
	p.AvailableVramGb, p.AvailableVramPartial = 0, false
	if p.GetStatus() == holdfastv1.Pool_HEALTHY {
		p.AvailableVramGb, p.AvailableVramPartial = int64(free), partial
	}
	if l, ok := s.Lease(internalv1.LeaseRef_POOL, p.GetPoolId()); ok &&
		l.GetLastSeen().AsTime().After(p.GetRegisteredAt().AsTime()) {
		p.LastHeartbeat = l.GetLastSeen()
	}
	return p
}

// countPool returns the number of a pool's machines in an index. It does not iterate.
func countPool(s *core.State, index int, id string) int {
	return s.Machines.Count(index, id+"\x01") - s.Machines.Count(index, schema.PoolKey(id))
}

// SweepPools archives pools that were deregistered long enough ago, and skips others.
func SweepPools(t *core.Tx, c *internalv1.SweepPools) *refusal.Error {
	for _, id := range c.GetPoolIds() {
		p, ok := t.Pools.Edit(id)
		if !ok || p.GetStatus() != holdfastv1.Pool_DRAINING ||
			t.Now.AsTime().Sub(p.GetStatusChangedAt().AsTime()) < drainFor {
			continue
		}
		movePool(t, p, holdfastv1.Pool_ARCHIVED, p.GetStatusReason())
		p.Gpus = nil
		p.WorkersTotal, p.WorkersReady, p.WorkersBusy, p.UptimeSeconds = 0, 0, 0, 0
		putPool(t, p)
	}
	return nil
}

// RevivePool grants a lease to an unavailable pool that sends a heartbeat. One that was
// deregistered must register again.
func RevivePool(t *core.Tx, id string) *internalv1.Lease {
	p, ok := t.Pools.Get(id)
	if !ok || !managed(p) || p.GetStatus() == holdfastv1.Pool_DRAINING {
		return nil
	}
	return t.GrantLease(internalv1.LeaseRef_POOL, id, 0)
}

// PoolSeen applies the report of a heartbeat. An invalid report is ignored, but the heartbeat
// still counts.
func PoolSeen(t *core.Tx, id string, r *internalv1.PoolReport) {
	p, ok := t.Pools.Edit(id)
	if !ok {
		return
	}
	movePool(t, p, holdfastv1.Pool_HEALTHY, "")
	if r != nil && checkGpus("", r.GetGpus()) == nil {
		p.Gpus = mergeGpus(p.GetGpus(), r.GetGpus())
		p.WorkersTotal, p.WorkersReady, p.WorkersBusy = r.GetWorkersTotal(), r.GetWorkersReady(), r.GetWorkersBusy()
		p.UptimeSeconds = r.GetUptimeSeconds()
	}
	putPool(t, p)
}

// PoolMissing removes a pool that has missed its heartbeats from placement. It is still
// listed.
func PoolMissing(t *core.Tx, id string) {
	if p, ok := t.Pools.Edit(id); ok && managed(p) && p.GetStatus() != holdfastv1.Pool_DRAINING {
		movePool(t, p, holdfastv1.Pool_UNAVAILABLE, "missed its heartbeats")
		putPool(t, p)
	}
}

// DrainedPools returns the ids of pools that SweepPools would archive at a time.
func (v *View) DrainedPools(at time.Time) []string {
	var ids []string
	for p := range v.s.Pools.Ascend("", "") {
		if p.GetStatus() == holdfastv1.Pool_DRAINING && at.Sub(p.GetStatusChangedAt().AsTime()) >= drainFor {
			ids = append(ids, p.GetPoolId())
		}
	}
	return ids
}
