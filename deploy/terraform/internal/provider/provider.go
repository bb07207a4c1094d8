// Package provider is the Terraform provider of Holdfast: its settings, and its resources and data
// sources. It makes one client for all of them.
package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/deploy/terraform/internal/connect"
	"github.com/holdfast-metal/holdfast/deploy/terraform/internal/kinds"
	"github.com/holdfast-metal/holdfast/deploy/terraform/internal/sources"
	"github.com/holdfast-metal/holdfast/deploy/terraform/internal/values"
)

type holdfast struct {
	version string
	getenv  func(string) string
}

// settings is the model of the provider's configuration.
type settings struct {
	Context   types.String `tfsdk:"context"`
	Peers     types.List   `tfsdk:"peers"`
	Token     types.String `tfsdk:"token"`
	TokenFile types.String `tfsdk:"token_file"`
	CAFile    types.String `tfsdk:"ca_file"`
	CertFile  types.String `tfsdk:"cert_file"`
	KeyFile   types.String `tfsdk:"key_file"`
}

// New returns the constructor of the provider. Getenv reads the environment.
func New(version string, getenv func(string) string) func() provider.Provider {
	return func() provider.Provider { return &holdfast{version: version, getenv: getenv} }
}

// Metadata implements provider.Provider.
func (p *holdfast) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName, resp.Version = "holdfast", p.version
}

// Schema implements provider.Provider.
func (p *holdfast) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	text := func(description string) schema.StringAttribute {
		return schema.StringAttribute{Optional: true, Description: description}
	}
	token := text("Access token (HOLDFAST_TOKEN)")
	token.Sensitive = true
	resp.Schema = schema.Schema{
		Description: "Manages the inventory of a Holdfast cluster. Without settings it connects as the command line does.",
		Attributes: map[string]schema.Attribute{
			"context": text("Context of the command line's config file (HOLDFAST_CONTEXT). The environment is then ignored, " +
				"except HOLDFAST_CONTEXTS."),
			"peers": schema.ListAttribute{Optional: true, ElementType: types.StringType,
				Description: "gRPC addresses of the peers, host:port (HOLDFAST_ADDR). List all of them."},
			"token":      token,
			"token_file": text("File with the access token"),
			"ca_file":    text("File with the CA certificates of the cluster, PEM (HOLDFAST_CA)"),
			"cert_file":  text("File with a client certificate, PEM (HOLDFAST_CERT)"),
			"key_file":   text("File with its key, PEM (HOLDFAST_KEY)"),
		},
	}
}

// Configure implements provider.Provider.
func (p *holdfast) Configure(
	ctx context.Context, req provider.ConfigureRequest, resp *provider.ConfigureResponse,
) {
	var s settings
	resp.Diagnostics.Append(req.Config.Get(ctx, &s)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if !req.Config.Raw.IsFullyKnown() {
		resp.Diagnostics.AddError("Cannot connect to the cluster", "the settings of the provider depend on a resource that "+
			"is not created yet: create it first (terraform apply -target)")
		return
	}
	cfg, err := connect.Settings{
		Context: s.Context.ValueString(), Peers: values.Texts(s.Peers), Token: s.Token.ValueString(),
		TokenFile: s.TokenFile.ValueString(), CA: s.CAFile.ValueString(), Cert: s.CertFile.ValueString(),
		Key: s.KeyFile.ValueString(),
	}.Config(p.getenv)
	var c *client.Client
	if err == nil {
		c, err = client.Dial(cfg)
	}
	if err != nil {
		resp.Diagnostics.AddAttributeError(path.Empty(), "Cannot connect to the cluster", err.Error())
		return
	}
	resp.ResourceData, resp.DataSourceData = c, c
}

// Resources implements provider.Provider.
func (p *holdfast) Resources(context.Context) []func() resource.Resource { return kinds.All() }

// DataSources implements provider.Provider.
func (p *holdfast) DataSources(context.Context) []func() datasource.DataSource { return sources.All() }
