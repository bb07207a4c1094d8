// Package sources has the data sources of the provider: machines, and the state of the cluster.
// They only read.
package sources

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/deploy/terraform/internal/crud"
)

// All returns the constructors of all data sources.
func All() []func() datasource.DataSource {
	return []func() datasource.DataSource{construct(machineSource()), construct(machinesSource()),
		construct(clusterSource())}
}

// kind is a kind of data source. M is the model of its attributes.
type kind[M any] struct {
	name   string
	schema schema.Schema
	read   func(ctx context.Context, c *client.Client, m *M) error
}

type source[M any] struct {
	kind[M]
	client *client.Client
}

func construct[M any](k kind[M]) func() datasource.DataSource {
	return func() datasource.DataSource { return &source[M]{kind: k} }
}

// Metadata implements datasource.DataSource.
func (s *source[M]) Metadata(
	_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse,
) {
	resp.TypeName = req.ProviderTypeName + "_" + s.name
}

// Schema implements datasource.DataSource.
func (s *source[M]) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = s.schema
}

// Configure implements datasource.DataSourceWithConfigure.
func (s *source[M]) Configure(
	_ context.Context, req datasource.ConfigureRequest, resp *datasource.ConfigureResponse,
) {
	if req.ProviderData == nil {
		return
	}
	c, ok := req.ProviderData.(*client.Client)
	if !ok {
		resp.Diagnostics.AddError("Cannot configure "+s.name,
			fmt.Sprintf("the provider has %T instead of a client: this is a bug of the provider", req.ProviderData))
		return
	}
	s.client = c
}

// Read implements datasource.DataSource.
func (s *source[M]) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var m M
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if err := s.read(ctx, s.client, &m); err != nil {
		resp.Diagnostics.AddError("Cannot read "+s.name, crud.Message(err))
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
}

func computed(text string) schema.StringAttribute {
	return schema.StringAttribute{Computed: true, Description: text}
}
