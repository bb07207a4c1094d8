package registry

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/filter"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/page"
	"github.com/holdfast-metal/holdfast/server/internal/request"
)

// Pools implements PoolService.
type Pools struct {
	holdfastv1.UnimplementedPoolServiceServer
	*edge.Peer
	margin float64
}

// NewPools returns the service of a peer. The margin, in percent, is returned to marketplace
// providers that register.
func NewPools(peer *edge.Peer, margin float64) *Pools { return &Pools{Peer: peer, margin: margin} }

// CreatePool declares a pool, or changes its declaration.
func (s *Pools) CreatePool(ctx context.Context, r *holdfastv1.CreatePoolRequest) (*holdfastv1.Pool, error) {
	in := r.GetPool()
	if in == nil {
		return nil, request.Invalid("pool", "is required")
	}
	p := &holdfastv1.Pool{
		PoolId: in.GetPoolId(), Provider: in.GetProvider(), GpuType: in.GetGpuType(), Labels: in.GetLabels(),
	}
	if err := request.Violations(fsm.CheckPool(p)); err != nil {
		return nil, err
	}
	c := auth.Command(ctx)
	c.Op = &internalv1.Command_CreatePool{CreatePool: &internalv1.CreatePool{Pool: p}}
	return edge.Apply[*holdfastv1.Pool](ctx, s.Cluster, c)
}

// GetPool gets a pool.
func (s *Pools) GetPool(ctx context.Context, r *holdfastv1.GetPoolRequest) (*holdfastv1.Pool, error) {
	v, err := request.View(ctx, s.Cluster.View, "pool_id", r.GetPoolId())
	if err != nil {
		return nil, err
	}
	p, ok := v.Pool(r.GetPoolId())
	if !ok || !auth.InScope(auth.From(ctx), p.GetPoolId()) {
		return nil, request.NotFound(fsm.ReasonPoolNotFound, "pool", r.GetPoolId())
	}
	return p, nil
}

// ListPools lists pools by id. It can select the pools on which a workload can be placed.
func (s *Pools) ListPools(
	ctx context.Context, r *holdfastv1.ListPoolsRequest,
) (*holdfastv1.ListPoolsResponse, error) {
	f, err := request.Filter(poolFilter, r.GetFilter())
	if err != nil {
		return nil, err
	}
	if r.GetMinAvailableVramGb() < 0 {
		return nil, request.Invalid("min_available_vram_gb", "is negative")
	}
	p, v, err := page.Open(ctx, s.Cluster.View, r, "pools",
		r.GetFilter(), r.GetGpuModel(), r.GetRegion(), fmt.Sprint(r.GetMinAvailableVramGb()))
	if err != nil {
		return nil, err
	}
	q := fsm.PoolQuery{MinFreeVRAM: r.GetMinAvailableVramGb(), GPUModel: r.GetGpuModel(), Region: r.GetRegion()}
	who := auth.From(ctx)
	resp := &holdfastv1.ListPoolsResponse{}
	rows := page.Keyed(v.Pools(p.After), (*holdfastv1.Pool).GetPoolId)
	resp.Pools, resp.NextPageToken, err = page.Collect(ctx, p, rows, func(p *holdfastv1.Pool) bool {
		return auth.InScope(who, p.GetPoolId()) && q.Match(p) && f.Match(p)
	})
	return resp, err
}

// DeletePool deletes a declared pool that contains no machine.
func (s *Pools) DeletePool(
	ctx context.Context, r *holdfastv1.DeletePoolRequest,
) (*holdfastv1.DeletePoolResponse, error) {
	if err := request.Required("pool_id", r.GetPoolId()); err != nil {
		return nil, err
	}
	c := auth.Command(ctx)
	c.Op = &internalv1.Command_DeletePool{DeletePool: &internalv1.DeletePool{PoolId: r.GetPoolId()}}
	return edge.ApplyEmpty[holdfastv1.DeletePoolResponse](ctx, s.Cluster, c)
}

// RegisterPool registers the pool of a pool manager. The manager may call it any number
// of times.
func (s *Pools) RegisterPool(
	ctx context.Context, r *holdfastv1.RegisterPoolRequest,
) (*holdfastv1.RegisterPoolResponse, error) {
	in := r.GetPool()
	if err := request.Required("pool_id", in.GetPoolId()); err != nil {
		return nil, err
	}
	if err := finiteGpus("pool.gpus", in.GetGpus()); err != nil {
		return nil, err
	}
	p := &holdfastv1.Pool{
		PoolId:        in.GetPoolId(),
		Endpoint:      in.GetEndpoint(),
		NodeId:        in.GetNodeId(),
		Region:        in.GetRegion(),
		Version:       in.GetVersion(),
		WorkersTotal:  in.GetWorkersTotal(),
		WorkersReady:  in.GetWorkersReady(),
		WorkersBusy:   in.GetWorkersBusy(),
		UptimeSeconds: in.GetUptimeSeconds(),
	}
	for _, g := range in.GetGpus() {
		p.Gpus = append(p.Gpus, request.WithoutUnknown(g))
	}
	if err := request.Violations(fsm.CheckPool(p)); err != nil {
		return nil, err
	}
	lease := fsm.LifetimeOf(internalv1.LeaseRef_POOL)
	c := auth.Command(ctx)
	c.Op = &internalv1.Command_RegisterPool{
		RegisterPool: &internalv1.RegisterPool{Pool: p, TtlMs: lease.TTL.Milliseconds()},
	}
	p, err := edge.Apply[*holdfastv1.Pool](ctx, s.Cluster, c)
	if err != nil {
		return nil, err
	}
	return &holdfastv1.RegisterPoolResponse{
		Pool: p, HeartbeatIntervalMs: lease.Interval.Milliseconds(),
		TtlSeconds: int64(lease.Last(lease.TTL, lease.Interval) / time.Second),
	}, nil
}

// DeregisterPool removes a pool from placement.
func (s *Pools) DeregisterPool(
	ctx context.Context, r *holdfastv1.DeregisterPoolRequest,
) (*holdfastv1.DeregisterPoolResponse, error) {
	if err := request.Required("pool_id", r.GetPoolId()); err != nil {
		return nil, err
	}
	c := auth.Command(ctx)
	c.Op = &internalv1.Command_DeregisterPool{DeregisterPool: &internalv1.DeregisterPool{
		PoolId: r.GetPoolId(), Reason: clip(r.GetReason(), request.MaxComment),
	}}
	return edge.ApplyEmpty[holdfastv1.DeregisterPoolResponse](ctx, s.Cluster, c)
}

// poolFilter returns the fields that pool filters can use.
func poolFilter() *filter.Schema {
	return &filter.Schema{
		Message: (*holdfastv1.Pool)(nil).ProtoReflect().Descriptor(),
		Fixed:   []string{"pool_id", "created_at"},
	}
}
