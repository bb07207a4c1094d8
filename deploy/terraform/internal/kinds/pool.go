package kinds

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/deploy/terraform/internal/crud"
	"github.com/holdfast-metal/holdfast/deploy/terraform/internal/values"
	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// defaultProvider is the provider of a pool whose declaration has none. An import leaves it out.
const defaultProvider = "generic"

// pool is the model of holdfast_pool: the declaration of a pool. Omitted attributes keep their
// value on the server.
type pool struct {
	PoolID       types.String `tfsdk:"pool_id"`
	ProviderName types.String `tfsdk:"provider_name"`
	GPUType      types.String `tfsdk:"gpu_type"`
	Labels       types.Map    `tfsdk:"labels"`
}

func poolKind() crud.Kind[pool] {
	return crud.Kind[pool]{
		Name: "pool", Key: "pool_id", Upsert: true,
		Rename: map[string]string{"provider": "provider_name"},
		Schema: schema.Schema{
			Description: "The declaration of a pool. The registration by a pool manager is not managed.",
			Attributes: map[string]schema.Attribute{
				"pool_id":       required("Id of the pool. Another id is another pool."),
				"provider_name": optional("Provider of its machines (generic if never set)"),
				"gpu_type":      optional("Free text about its machines' GPUs"),
				"labels":        optionalMap("Labels that are managed here. Other labels of the pool stay."),
			},
		},
		ID: func(p *pool) string { return p.PoolID.ValueString() },
		Empty: func(id string) pool {
			return pool{PoolID: types.StringValue(id), Labels: types.MapNull(types.StringType)}
		},
		Read: func(ctx context.Context, c *client.Client, p *pool, all bool) error {
			live, err := declared(ctx, c, p.PoolID.ValueString())
			if err == nil {
				p.fill(live, all)
			}
			return err
		},
		Create: func(ctx context.Context, c *client.Client, p, _ *pool) error {
			return p.put(ctx, c, &holdfastv1.Pool{}, &pool{Labels: types.MapNull(types.StringType)})
		},
		Update: func(ctx context.Context, c *client.Client, was, p, _ *pool) error {
			live, err := declared(ctx, c, p.PoolID.ValueString())
			if err != nil {
				return err
			}
			return p.put(ctx, c, live, was)
		},
		Delete: func(ctx context.Context, c *client.Client, p *pool) error {
			_, err := c.Pools().DeletePool(ctx, &holdfastv1.DeletePoolRequest{PoolId: p.PoolID.ValueString()})
			return err
		},
		Check: func(p *pool) []crud.Violation { return violations(fsm.CheckPool(p.proto(nil, p))) },
	}
}

// declared returns a pool that is declared. One that only its manager registered is NOT_FOUND.
func declared(ctx context.Context, c *client.Client, id string) (*holdfastv1.Pool, error) {
	live, err := c.Pools().GetPool(ctx, &holdfastv1.GetPoolRequest{PoolId: id})
	if err == nil && !live.GetDeclared() {
		err = status.Errorf(codes.NotFound, "pool %q is registered by its manager, but not declared", id)
	}
	return live, err
}

// put stores the declaration, which replaces the one of the server.
func (p *pool) put(ctx context.Context, c *client.Client, live *holdfastv1.Pool, was *pool) error {
	live, err := c.Pools().CreatePool(ctx, &holdfastv1.CreatePoolRequest{Pool: p.proto(live, was)})
	if err == nil {
		p.fill(live, false)
	}
	return err
}

// proto returns the declaration after a change from was, which keeps what is not managed.
func (p *pool) proto(live *holdfastv1.Pool, was *pool) *holdfastv1.Pool {
	labels, _ := values.MergedLabels(live.GetLabels(), was.Labels, p.Labels)
	return &holdfastv1.Pool{PoolId: p.PoolID.ValueString(), Declared: true, Labels: labels,
		Provider: kept(live.GetProvider(), was.ProviderName, p.ProviderName),
		GpuType:  kept(live.GetGpuType(), was.GPUType, p.GPUType)}
}

// kept returns the value of a field after a change of its attribute. One that was never set keeps
// the value of the server.
func kept(live string, was, now types.String) string {
	if now.IsNull() && was.IsNull() {
		return live
	}
	return now.ValueString()
}

func (p *pool) fill(live *holdfastv1.Pool, all bool) {
	p.ProviderName = values.Kept(p.ProviderName, live.GetProvider(), all && live.GetProvider() != defaultProvider)
	p.GPUType = values.Kept(p.GPUType, live.GetGpuType(), all)
	p.Labels = values.KeptLabels(p.Labels, live.GetLabels(), all)
}
