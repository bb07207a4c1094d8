package kinds

import (
	"context"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/deploy/terraform/internal/crud"
	"github.com/holdfast-metal/holdfast/deploy/terraform/internal/values"
	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// secret is the model of holdfast_secret. Its values are write-only: neither a plan nor a state has
// them.
type secret struct {
	Name          types.String `tfsdk:"name"`
	Type          types.String `tfsdk:"type"`
	ValuesWO      types.Map    `tfsdk:"values_wo"`
	ValuesVersion types.Int64  `tfsdk:"values_wo_version"`
	Pools         types.Set    `tfsdk:"pools"`
}

func secretKind() crud.Kind[secret] {
	kind := required("bmc, ssh, join, token or opaque: determines its values")
	kind.PlanModifiers = []planmodifier.String{stringplanmodifier.RequiresReplace()}
	return crud.Kind[secret]{
		Name: "secret", Key: "name", Upsert: true,
		Rename: map[string]string{"values": "values_wo"},
		Schema: schema.Schema{
			Description: "A secret. Its values are stored by the cluster, and neither in the plan nor in the state.",
			Attributes: map[string]schema.Attribute{
				"name": required("Name of the secret, e.g. bmc/rack-7; cluster/NAME of type join registers a cluster"),
				"type": kind,
				"values_wo": schema.MapAttribute{Required: true, WriteOnly: true, ElementType: types.StringType,
					Description: "Its values by name, e.g. username and password"},
				"values_wo_version": schema.Int64Attribute{Required: true,
					Description: "Store the values again when this number changes"},
				"pools": optionalSet("Pools whose machines may refer to it; omitted: all"),
			},
		},
		ID: func(s *secret) string { return s.Name.ValueString() },
		Empty: func(name string) secret {
			return secret{Name: types.StringValue(name), ValuesWO: types.MapNull(types.StringType),
				Pools: types.SetNull(types.StringType)}
		},
		Read: func(ctx context.Context, c *client.Client, s *secret, _ bool) error {
			live, err := c.Secrets().GetSecret(ctx, &holdfastv1.GetSecretRequest{Name: s.Name.ValueString()})
			return filled(s.fill, live, err)
		},
		Create: func(ctx context.Context, c *client.Client, s, config *secret) error { return s.put(ctx, c, config) },
		Update: func(ctx context.Context, c *client.Client, _, s, config *secret) error {
			return s.put(ctx, c, config)
		},
		Delete: func(ctx context.Context, c *client.Client, s *secret) error {
			_, err := c.Secrets().DeleteSecret(ctx, &holdfastv1.DeleteSecretRequest{Name: s.Name.ValueString()})
			return err
		},
		Check: func(s *secret) []crud.Violation {
			public := &holdfastv1.Secret{Name: s.Name.ValueString(), Type: s.Type.ValueString(),
				Pools: values.Texts(s.Pools)}
			for k := range s.ValuesWO.Elements() {
				public.Keys = append(public.Keys, k)
			}
			slices.Sort(public.Keys)
			return violations(fsm.ValidateSecret(public))
		},
	}
}

// put stores the values of the configuration as a new version.
func (s *secret) put(ctx context.Context, c *client.Client, config *secret) error {
	pools := values.Texts(s.Pools)
	live, err := c.Secrets().PutSecret(ctx, &holdfastv1.PutSecretRequest{Name: s.Name.ValueString(),
		Type: s.Type.ValueString(), Values: values.Map(config.ValuesWO), Pools: pools, AllPools: len(pools) == 0})
	return filled(s.fill, live, err)
}

func (s *secret) fill(live *holdfastv1.Secret) {
	s.Type = values.Kept(s.Type, live.GetType(), true)
	s.Pools = values.KeptSet(s.Pools, live.GetPools(), true, values.Same)
}
