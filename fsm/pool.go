package fsm

import (
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/events"
	"github.com/holdfast-metal/holdfast/fsm/internal/fleet"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
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

// Limits of a pool.
const (
	maxGpus     = 1024
	maxPoolText = 255 // bytes a field
	maxWorkers  = 256 // of one GPU
)

// drainFor is the time from the deregistration of a pool to its archival (docs/clients.md,
// 001).
const drainFor = 5 * time.Minute

func poolNotFound(id string) *Error {
	return refuse(NotFound, ReasonPoolNotFound, "pool %q not found", id).With("pool_id", id)
}

// countPool returns the number of a pool's machines in an index. It does not iterate.
func countPool(s *core.State, index int, id string) int {
	return s.Machines.Count(index, id+"\x01") - s.Machines.Count(index, schema.PoolKey(id))
}

// wholePool sets the fields that are computed on read.
func wholePool(s *core.State, p *holdfastv1.Pool) *holdfastv1.Pool {
	p.Machines = int32(countPool(s, schema.MachinesByPool, p.GetPoolId()))
	p.MachinesReady = int32(countPool(s, schema.MachinesPoolReady, p.GetPoolId()))
	free := 0.0
	for _, g := range p.GetGpus() {
		free += g.GetAvailableVramGb()
	}
	p.AvailableVramGb = 0
	if p.GetStatus() == holdfastv1.Pool_HEALTHY {
		p.AvailableVramGb = int64(free)
	}
	if l, ok := s.Lease(internalv1.LeaseRef_POOL, p.GetPoolId()); ok &&
		l.GetLastSeen().AsTime().After(p.GetRegisteredAt().AsTime()) {
		p.LastHeartbeat = l.GetLastSeen()
	}
	return p
}

// CheckPool returns the violations of a declared or registered pool, and trims its texts.
func CheckPool(p *holdfastv1.Pool) []FieldViolation {
	var bad []FieldViolation
	add := func(field, format string, args ...any) {
		bad = append(bad, FieldViolation{Field: "pool." + field, Description: fmt.Sprintf(format, args...)})
	}
	if !lex.ValidName(p.GetPoolId(), core.MaxPoolName) {
		add("pool_id", "%q is not 1 to %d letters, digits, '.', '_', '-' or ':'", p.GetPoolId(), core.MaxPoolName)
	}
	if p == nil {
		return bad
	}
	for _, f := range []struct {
		name  string
		value *string
	}{
		{"provider", &p.Provider}, {"gpu_type", &p.GpuType}, {"endpoint", &p.Endpoint},
		{"node_id", &p.NodeId}, {"region", &p.Region}, {"version", &p.Version},
	} {
		*f.value = strings.TrimSpace(*f.value)
		if len(*f.value) > maxPoolText || strings.ContainsAny(*f.value, "\x00\n\r") {
			add(f.name, "must be one line of at most %d bytes", maxPoolText)
		}
	}
	labels := &holdfastv1.Machine{Labels: p.GetLabels()}
	for _, v := range fleet.NormalizeMachine(labels) {
		add(strings.TrimPrefix(v.Field, "machine."), "%s", v.Description)
	}
	return append(bad, checkGpus(p.GetGpus())...)
}

// CheckPoolReport returns the violations of a heartbeat's numbers. Impossible measurements
// are refused by field, so that the author of the manager can find the cause.
func CheckPoolReport(r *internalv1.PoolReport) []FieldViolation {
	bad := checkGpus(r.GetGpus())
	for i := range bad {
		bad[i].Field = strings.TrimPrefix(bad[i].Field, "pool.")
	}
	for i, g := range r.GetGpus() {
		if total := g.GetTotalVramGb(); total > 0 && g.GetAvailableVramGb() > total {
			bad = append(bad, FieldViolation{Field: fmt.Sprintf("gpus[%d].available_vram_gb", i),
				Description: fmt.Sprintf("is %v, more than total_vram_gb, which is %v", g.GetAvailableVramGb(), total)})
		}
	}
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"workers_total", int64(r.GetWorkersTotal())}, {"workers_ready", int64(r.GetWorkersReady())},
		{"workers_busy", int64(r.GetWorkersBusy())}, {"uptime_seconds", r.GetUptimeSeconds()},
	} {
		if f.value < 0 {
			bad = append(bad, FieldViolation{
				Field: f.name, Description: fmt.Sprintf("is %d: must not be negative", f.value),
			})
		}
	}
	used := int64(r.GetWorkersReady()) + int64(r.GetWorkersBusy())
	if total := int64(r.GetWorkersTotal()); total > 0 && used > total {
		bad = append(bad, FieldViolation{
			Field:       "workers_total",
			Description: fmt.Sprintf("is %d, but %d are ready or busy", total, used),
		})
	}
	return bad
}

func checkGpus(gpus []*holdfastv1.Gpu) []FieldViolation {
	if len(gpus) > maxGpus {
		return []FieldViolation{
			{Field: "pool.gpus", Description: fmt.Sprintf("are %d, at most %d are allowed", len(gpus), maxGpus)},
		}
	}
	seen := map[int32]bool{}
	var bad []FieldViolation
	for i, g := range gpus {
		at := fmt.Sprintf("pool.gpus[%d]", i)
		switch {
		case seen[g.GetId()]:
			bad = append(bad, FieldViolation{Field: at + ".id", Description: fmt.Sprintf("%d is duplicate", g.GetId())})
		// NaN fails these comparisons too.
		case !(g.GetTotalVramGb() >= 0) || !(g.GetAvailableVramGb() >= 0) || g.GetTotalVramGb() > 1e6 ||
			g.GetAvailableVramGb() > 1e6:
			bad = append(bad, FieldViolation{Field: at, Description: "VRAM is not a number of gigabytes"})
		case len(g.GetModel()) > maxPoolText || len(g.GetComputeCapability()) > maxPoolText ||
			len(g.GetWorkers()) > maxWorkers:
			bad = append(bad, FieldViolation{Field: at, Description: "is too long"})
		}
		seen[g.GetId()] = true
	}
	return bad
}

// createPool declares a pool, or changes its declaration.
func createPool(t *core.Tx, c *internalv1.CreatePool) (*holdfastv1.Pool, *Error) {
	in := c.GetPool()
	if err := Invalid(CheckPool(in)); err != nil {
		return nil, err
	}
	p, exists := t.Pools.Get(in.GetPoolId())
	if !exists {
		p = &holdfastv1.Pool{PoolId: in.GetPoolId(), CreatedAt: t.Now}
	}
	p.Declared, p.Provider = true, lex.First(in.GetProvider(), fleet.GenericProvider)
	p.GpuType, p.Labels = in.GetGpuType(), in.GetLabels()
	if !managed(p) && in.GetRegion() != "" {
		p.Region = in.GetRegion()
	}
	putPool(t, p)
	return wholePool(t.State, p), nil
}

// managed reports whether a pool has a manager that is registered or may return.
func managed(p *holdfastv1.Pool) bool {
	return p.GetStatus() != holdfastv1.Pool_STATUS_UNSPECIFIED && p.GetStatus() != holdfastv1.Pool_ARCHIVED
}

func putPool(t *core.Tx, p *holdfastv1.Pool) {
	p.UpdatedAt = t.Now
	p.Machines, p.MachinesReady, p.AvailableVramGb, p.LastHeartbeat = 0, 0, 0, nil // computed on read
	t.Pools.Put(p)
}

// deletePool removes a pool's declaration. The registration by a manager stays until it
// deregisters.
func deletePool(t *core.Tx, c *internalv1.DeletePool) *Error {
	p, ok := t.Pools.Get(c.GetPoolId())
	if !ok {
		return poolNotFound(c.GetPoolId())
	}
	if n := countPool(t.State, schema.MachinesByPool, p.GetPoolId()); n > 0 {
		return refuse(FailedPrecondition, ReasonPoolInUse, "pool %q has %d machines: move or delete them first",
			p.GetPoolId(), n).
			With("pool_id", p.GetPoolId())
	}
	if managed(p) {
		if !p.GetDeclared() {
			return refuse(FailedPrecondition, ReasonPoolInUse,
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

// registerPool replaces the registration of a pool. A draining or archived pool returns.
func registerPool(t *core.Tx, c *internalv1.RegisterPool) (*holdfastv1.Pool, *Error) {
	in := c.GetPool()
	if err := Invalid(CheckPool(in)); err != nil {
		return nil, err
	}
	p, exists := t.Pools.Get(in.GetPoolId())
	if !exists {
		p = &holdfastv1.Pool{PoolId: in.GetPoolId(), CreatedAt: t.Now}
	}
	p.Endpoint, p.NodeId, p.Version = in.GetEndpoint(), in.GetNodeId(), in.GetVersion()
	p.Region = lex.First(in.GetRegion(), p.GetRegion())
	if t.Has(core.Level2) && p.GetStatus() == holdfastv1.Pool_HEALTHY {
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

// keepMeasured copies the measurements of the last heartbeat to a registration, which has
// none, so that a healthy pool that registers again stays in placement.
func keepMeasured(old, registered []*holdfastv1.Gpu) {
	last := map[int32]*holdfastv1.Gpu{}
	for _, g := range old {
		last[g.GetId()] = g
	}
	for _, g := range registered {
		k := last[g.GetId()]
		if k == nil || g.GetAvailableVramGb() > 0 || len(g.GetWorkers()) > 0 {
			continue
		}
		g.AvailableVramGb, g.Workers = min(k.GetAvailableVramGb(), g.GetTotalVramGb()), k.GetWorkers()
		if g.GetTemperatureCelsius() == 0 {
			g.TemperatureCelsius = k.GetTemperatureCelsius()
		}
	}
}

func movePool(t *core.Tx, p *holdfastv1.Pool, to holdfastv1.Pool_Status, reason string) {
	if p.GetStatus() != to {
		p.Status, p.StatusChangedAt = to, t.Now
		if t.Has(core.Level2) {
			events.AddNews(t, poolNews(p, reason))
		}
	}
	p.StatusReason = reason
}

// deregisterPool removes a pool from placement at once. Repeating it changes nothing.
func deregisterPool(t *core.Tx, c *internalv1.DeregisterPool) *Error {
	p, ok := t.Pools.Get(c.GetPoolId())
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

// sweepPools archives pools that were deregistered long enough ago, and skips others.
func sweepPools(t *core.Tx, c *internalv1.SweepPools) *Error {
	for _, id := range c.GetPoolIds() {
		p, ok := t.Pools.Get(id)
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

// revivePool grants a lease to an unavailable pool that sends a heartbeat. One that was
// deregistered must register again.
func revivePool(t *core.Tx, id string) *internalv1.Lease {
	p, ok := t.Pools.Get(id)
	if !ok || !managed(p) || p.GetStatus() == holdfastv1.Pool_DRAINING {
		return nil
	}
	return t.GrantLease(internalv1.LeaseRef_POOL, id, 0)
}

// poolSeen applies the report of a heartbeat. An invalid report is ignored, but the heartbeat
// still counts.
func poolSeen(t *core.Tx, id string, r *internalv1.PoolReport) {
	p, ok := t.Pools.Get(id)
	if !ok {
		return
	}
	movePool(t, p, holdfastv1.Pool_HEALTHY, "")
	if r != nil && checkGpus(r.GetGpus()) == nil {
		p.Gpus = mergeGpus(p.GetGpus(), r.GetGpus())
		p.WorkersTotal, p.WorkersReady, p.WorkersBusy = r.GetWorkersTotal(), r.GetWorkersReady(), r.GetWorkersBusy()
		p.UptimeSeconds = r.GetUptimeSeconds()
	}
	putPool(t, p)
}

// mergeGpus updates registered GPUs with reported ones. Heartbeats have no models. A GPU
// missing from the report has no free memory.
func mergeGpus(known, seen []*holdfastv1.Gpu) []*holdfastv1.Gpu {
	reported := map[int32]*holdfastv1.Gpu{}
	for _, g := range seen {
		reported[g.GetId()] = g
	}
	for _, k := range known {
		g, ok := reported[k.GetId()]
		if !ok {
			k.AvailableVramGb, k.Workers, k.TemperatureCelsius = 0, nil, 0
			continue
		}
		delete(reported, k.GetId())
		k.Model = lex.First(g.GetModel(), k.GetModel())
		k.ComputeCapability = lex.First(g.GetComputeCapability(), k.GetComputeCapability())
		if g.GetTotalVramGb() > 0 {
			k.TotalVramGb = g.GetTotalVramGb()
		}
		k.AvailableVramGb, k.Workers = g.GetAvailableVramGb(), g.GetWorkers()
		k.TemperatureCelsius = g.GetTemperatureCelsius()
	}
	for _, g := range seen {
		if reported[g.GetId()] != nil {
			known = append(known, g)
		}
	}
	return known
}

// poolMissing removes a pool that has missed its heartbeats from placement. It is still
// listed.
func poolMissing(t *core.Tx, id string) {
	if p, ok := t.Pools.Get(id); ok && managed(p) && p.GetStatus() != holdfastv1.Pool_DRAINING {
		movePool(t, p, holdfastv1.Pool_UNAVAILABLE, "missed its heartbeats")
		putPool(t, p)
	}
}

// Pool returns a pool.
func (v *View) Pool(id string) (*holdfastv1.Pool, bool) {
	p, ok := v.state.Pools.Get(id)
	if !ok {
		return nil, false
	}
	return wholePool(v.state, p), true
}

// Pools returns the pools with an id above after, by id, including archived ones.
func (v *View) Pools(after string) iter.Seq[*holdfastv1.Pool] {
	return func(yield func(*holdfastv1.Pool) bool) {
		for p := range v.state.Pools.Ascend("", after) {
			if !yield(wholePool(v.state, p)) {
				return
			}
		}
	}
}

// DrainedPools returns the ids of pools that SweepPools would archive at a time.
func (v *View) DrainedPools(at time.Time) []string {
	var ids []string
	for p := range v.state.Pools.Ascend("", "") {
		if p.GetStatus() == holdfastv1.Pool_DRAINING && at.Sub(p.GetStatusChangedAt().AsTime()) >= drainFor {
			ids = append(ids, p.GetPoolId())
		}
	}
	return ids
}

// PoolQuery selects pools for placement. The zero value matches any pool.
type PoolQuery struct {
	MinFreeVRAM float64 // gigabytes, on one GPU
	GPUModel    string
	Region      string
}

// Match reports whether a pool matches the query. Only healthy pools have free memory, and
// one GPU must match both the model and the memory. Models and regions are compared without
// case.
func (q PoolQuery) Match(p *holdfastv1.Pool) bool {
	if q.Region != "" && !strings.EqualFold(q.Region, p.GetRegion()) {
		return false
	}
	if q.MinFreeVRAM <= 0 && q.GPUModel == "" {
		return true
	}
	for _, g := range p.GetGpus() {
		free := q.MinFreeVRAM <= 0 || p.GetStatus() == holdfastv1.Pool_HEALTHY &&
			g.GetAvailableVramGb() >= q.MinFreeVRAM
		if free && (q.GPUModel == "" || strings.EqualFold(q.GPUModel, g.GetModel())) {
			return true
		}
	}
	return false
}
