package workload

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// declare creates a pool or a plan, reads one that the client has created, or deletes it.
// None is created or deleted twice, so that the outcomes determine which ones exist at the
// end.
func (c *client) declare(ctx context.Context, op Op) {
	op.Machine = ""
	dice := c.rng.IntN(10)
	if len(c.declared) == 0 || dice < 4 {
		if id := fmt.Sprintf("%s-c%d-%d", c.w.prefix, c.id, c.n); c.rng.IntN(2) == 0 {
			op.Pool = id
			op = c.w.rec.CreatePool(ctx, op, c.timeout())
		} else {
			op.Plan = id
			op = c.w.rec.CreatePlanOnce(ctx, op, c.timeout())
		}
		if op.Outcome == OK {
			c.declared = append(c.declared, op)
		}
		return
	}
	i := c.rng.IntN(len(c.declared))
	op.Pool, op.Plan = c.declared[i].Pool, c.declared[i].Plan
	switch pool := op.Pool != ""; {
	case dice < 6 && pool:
		c.w.rec.GetPool(ctx, op, c.timeout())
	case dice < 6:
		c.w.rec.GetPlanOnce(ctx, op, c.timeout())
	default:
		c.declared = slices.Delete(c.declared, i, i+1)
		if pool {
			c.w.rec.DeletePool(ctx, op, c.timeout())
		} else {
			c.w.rec.DeletePlan(ctx, op, c.timeout())
		}
	}
}

// CreatePool creates op.Pool.
func (r *Recorder) CreatePool(ctx context.Context, op Op, timeout time.Duration) Op {
	op.Kind = CreatePool
	return r.do(ctx, op, timeout, func(ctx context.Context, p peer, op *Op, o grpc.CallOption) error {
		_, err := p.pools.CreatePool(ctx,
			&holdfastv1.CreatePoolRequest{Pool: &holdfastv1.Pool{PoolId: op.Pool, GpuType: "none"}}, o)
		return err
	})
}

// DeletePool deletes op.Pool.
func (r *Recorder) DeletePool(ctx context.Context, op Op, timeout time.Duration) Op {
	op.Kind = DeletePool
	return r.do(ctx, op, timeout, func(ctx context.Context, p peer, op *Op, o grpc.CallOption) error {
		_, err := p.pools.DeletePool(ctx, &holdfastv1.DeletePoolRequest{PoolId: op.Pool}, o)
		return err
	})
}

// GetPool reads op.Pool.
func (r *Recorder) GetPool(ctx context.Context, op Op, timeout time.Duration) Op {
	op.Kind = GetPool
	return r.do(ctx, op, timeout, func(ctx context.Context, p peer, op *Op, o grpc.CallOption) error {
		_, err := p.pools.GetPool(ctx, &holdfastv1.GetPoolRequest{PoolId: op.Pool}, o)
		return err
	})
}

// CreatePlanOnce creates op.Plan.
func (r *Recorder) CreatePlanOnce(ctx context.Context, op Op, timeout time.Duration) Op {
	op.Kind = CreatePlanOnce
	return r.do(ctx, op, timeout, func(ctx context.Context, p peer, op *Op, o grpc.CallOption) error {
		_, err := p.plans.CreatePlan(ctx, &holdfastv1.CreatePlanRequest{Plan: register(op.Plan, "once")}, o)
		return err
	})
}

// DeletePlan deletes op.Plan.
func (r *Recorder) DeletePlan(ctx context.Context, op Op, timeout time.Duration) Op {
	op.Kind = DeletePlan
	return r.do(ctx, op, timeout, func(ctx context.Context, p peer, op *Op, o grpc.CallOption) error {
		_, err := p.plans.DeletePlan(ctx, &holdfastv1.DeletePlanRequest{PlanId: op.Plan}, o)
		return err
	})
}

// GetPlanOnce reads op.Plan.
func (r *Recorder) GetPlanOnce(ctx context.Context, op Op, timeout time.Duration) Op {
	op.Kind = GetPlanOnce
	return r.do(ctx, op, timeout, func(ctx context.Context, p peer, op *Op, o grpc.CallOption) error {
		_, err := p.plans.GetPlan(ctx, &holdfastv1.GetPlanRequest{PlanId: op.Plan}, o)
		return err
	})
}
