package registry

import (
	"cmp"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/fleet"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// A pool has two facets in one record: the operator's declaration (provider, GPU type,
// labels), and the registration by a pool manager (endpoint, GPUs, and a status that its
// lease changes). Either may be missing.

// The reasons that other packages decide by.
const (
	ReasonPoolNotFound = "POOL_NOT_FOUND" // its manager must register again
	ReasonPoolInUse    = "POOL_IN_USE"
)

func poolNotFound(id string) *refusal.Error {
	return refusal.New(refusal.NotFound, ReasonPoolNotFound, "pool %q not found", id).With("pool_id", id)
}

// CreatePool declares a pool, or changes its declaration.
func CreatePool(t *core.Tx, c *internalv1.CreatePool) (*holdfastv1.Pool, *refusal.Error) {
	in := c.GetPool()
	if err := refusal.Invalid(CheckPool(in)); err != nil {
		return nil, err
	}
	p, exists := t.Pools.Edit(in.GetPoolId())
	if !exists {
		if schema.Respelled(t.Pools, schema.PoolsByLower, in.GetPoolId()) {
			return nil, respelled(in.GetPoolId())
		}
		p = &holdfastv1.Pool{PoolId: in.GetPoolId(), CreatedAt: t.Now}
	}
	p.Declared, p.Provider = true, cmp.Or(in.GetProvider(), fleet.GenericProvider)
	p.GpuType, p.Labels = in.GetGpuType(), in.GetLabels()
	if !managed(p) && in.GetRegion() != "" {
		p.Region = in.GetRegion()
	}
	putPool(t, p)
	return wholePool(t.State, p), nil
}

func respelled(id string) *refusal.Error {
	return refusal.New(refusal.AlreadyExists, "POOL_CONFLICT",
		"pool %q differs from another pool only in capital letters: use the same spelling everywhere", id).
		With("pool_id", id)
}

// DeletePool removes a pool's declaration. The registration by a manager stays until it
// deregisters.
func DeletePool(t *core.Tx, c *internalv1.DeletePool) *refusal.Error {
	p, ok := t.Pools.Edit(c.GetPoolId())
	if !ok {
		return poolNotFound(c.GetPoolId())
	}
	if n := countPool(t.State, schema.MachinesByPool, p.GetPoolId()); n > 0 {
		return refusal.New(refusal.FailedPrecondition, ReasonPoolInUse,
			"pool %q has %s: move or delete them first",
			p.GetPoolId(), lex.Number(n, "machine")).
			With("pool_id", p.GetPoolId())
	}
	if managed(p) {
		if !p.GetDeclared() {
			return refusal.New(refusal.FailedPrecondition, ReasonPoolInUse,
				"pool %q was not declared: it is removed after its manager deregisters it", p.GetPoolId()).
				With("pool_id", p.GetPoolId())
		}
		p.Declared, p.Provider, p.GpuType, p.Labels = false, "", "", nil
		putPool(t, p)
		return nil
	}
	t.EndLease(internalv1.LeaseRef_POOL, p.GetPoolId())
	t.Pools.Delete(p.GetPoolId())
	return nil
}

// RegisterPool replaces the registration of a pool. A draining or archived pool returns.
func RegisterPool(t *core.Tx, c *internalv1.RegisterPool) (*holdfastv1.Pool, *refusal.Error) {
	in := c.GetPool()
	if err := refusal.Invalid(CheckPool(in)); err != nil {
		return nil, err
	}
	if problem := endpointProblem(in.GetEndpoint()); problem != "" {
		return nil, refusal.InvalidField("pool.endpoint", "%s", problem)
	}
	p, exists := t.Pools.Edit(in.GetPoolId())
	if !exists {
		if schema.Respelled(t.Pools, schema.PoolsByLower, in.GetPoolId()) {
			return nil, respelled(in.GetPoolId())
		}
		p = &holdfastv1.Pool{PoolId: in.GetPoolId(), CreatedAt: t.Now}
	}
	p.Endpoint, p.NodeId, p.Version = in.GetEndpoint(), in.GetNodeId(), in.GetVersion()
	p.Region = cmp.Or(in.GetRegion(), p.GetRegion())
	if p.GetStatus() == holdfastv1.Pool_HEALTHY {
		keepMeasured(p.GetGpus(), in.GetGpus())
	} else {
		movePool(t, p, holdfastv1.Pool_REGISTERED, "")
	}
	p.Gpus = in.GetGpus()
	p.WorkersTotal, p.WorkersReady, p.WorkersBusy = in.GetWorkersTotal(), in.GetWorkersReady(), in.GetWorkersBusy()
	p.UptimeSeconds = in.GetUptimeSeconds()
	p.RegisteredAt = t.Now
	t.GrantLease(internalv1.LeaseRef_POOL, p.GetPoolId(), c.GetTtlMs())
	putPool(t, p)
	return wholePool(t.State, p), nil
}

// DeregisterPool removes a pool from placement at once. Repeating it changes nothing.
func DeregisterPool(t *core.Tx, c *internalv1.DeregisterPool) *refusal.Error {
	p, ok := t.Pools.Edit(c.GetPoolId())
	if !ok {
		return poolNotFound(c.GetPoolId())
	}
	if !managed(p) || p.GetStatus() == holdfastv1.Pool_DRAINING {
		return nil
	}
	movePool(t, p, holdfastv1.Pool_DRAINING, lex.Clip(c.GetReason(), maxPoolText))
	t.EndLease(internalv1.LeaseRef_POOL, p.GetPoolId())
	putPool(t, p)
	return nil
}
