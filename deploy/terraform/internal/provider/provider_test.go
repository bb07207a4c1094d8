package provider

import (
	"context"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/resource"
)

// TestSchemas checks every schema as the framework does before it serves the provider.
func TestSchemas(t *testing.T) {
	ctx := t.Context()
	p := New("test", func(string) string { return "" })()
	var own provider.SchemaResponse
	p.Schema(ctx, provider.SchemaRequest{}, &own)
	if d := own.Schema.ValidateImplementation(ctx); d.HasError() {
		t.Errorf("schema of the provider: %v", d)
	}
	names := map[string]bool{}
	for _, construct := range p.Resources(ctx) {
		r := construct()
		var meta resource.MetadataResponse
		r.Metadata(ctx, resource.MetadataRequest{ProviderTypeName: "holdfast"}, &meta)
		var s resource.SchemaResponse
		r.Schema(ctx, resource.SchemaRequest{}, &s)
		if d := s.Schema.ValidateImplementation(ctx); d.HasError() {
			t.Errorf("schema of %s: %v", meta.TypeName, d)
		}
		names[meta.TypeName] = true
		checkInterfaces(t, meta.TypeName, r)
	}
	for _, construct := range p.DataSources(ctx) {
		d := construct()
		var meta datasource.MetadataResponse
		d.Metadata(ctx, datasource.MetadataRequest{ProviderTypeName: "holdfast"}, &meta)
		var s datasource.SchemaResponse
		d.Schema(ctx, datasource.SchemaRequest{}, &s)
		if diags := s.Schema.ValidateImplementation(ctx); diags.HasError() {
			t.Errorf("schema of data %s: %v", meta.TypeName, diags)
		}
	}
	for _, never := range []string{"holdfast_run", "holdfast_wave"} {
		if names[never] {
			t.Errorf("got the resource %s: an apply must not start runs", never)
		}
	}
}

// checkInterfaces checks that a resource can be imported, checked and previewed.
func checkInterfaces(t *testing.T, name string, r resource.Resource) {
	t.Helper()
	if _, ok := r.(resource.ResourceWithImportState); !ok {
		t.Errorf("%s cannot be imported", name)
	}
	if _, ok := r.(resource.ResourceWithValidateConfig); !ok {
		t.Errorf("%s does not check its configuration", name)
	}
	if _, ok := r.(resource.ResourceWithModifyPlan); !ok {
		t.Errorf("%s does not check plans", name)
	}
	if c, ok := r.(resource.ResourceWithConfigure); !ok {
		t.Errorf("%s gets no client", name)
	} else {
		var resp resource.ConfigureResponse
		c.Configure(context.Background(), resource.ConfigureRequest{ProviderData: 1}, &resp)
		if !resp.Diagnostics.HasError() {
			t.Errorf("%s accepts another type than a client", name)
		}
	}
}
