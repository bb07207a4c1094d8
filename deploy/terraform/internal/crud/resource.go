package crud

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/holdfast-metal/holdfast/client"
)

// Resource implements resource.Resource and its optional interfaces for a kind.
type Resource[M any] struct {
	kind   Kind[M]
	client *client.Client // nil while the provider is not configured
}

// New returns the constructor of a kind's resource.
func New[M any](k Kind[M]) func() resource.Resource {
	return func() resource.Resource { return &Resource[M]{kind: k} }
}

// Metadata implements resource.Resource.
func (r *Resource[M]) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + r.kind.Name
}

// Schema implements resource.Resource.
func (r *Resource[M]) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = r.kind.Schema
}

// Configure implements resource.ResourceWithConfigure.
func (r *Resource[M]) Configure(
	_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse,
) {
	if req.ProviderData == nil {
		return
	}
	c, ok := req.ProviderData.(*client.Client)
	if !ok {
		resp.Diagnostics.AddError("Cannot configure "+r.kind.Name,
			fmt.Sprintf("the provider has %T instead of a client: this is a bug of the provider", req.ProviderData))
		return
	}
	r.client = c
}

// Create implements resource.Resource.
func (r *Resource[M]) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var m, config M
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if resp.Diagnostics.HasError() {
		return
	}
	err := r.absent(ctx, &m)
	if err == nil {
		err = r.kind.Create(ctx, r.client, &m, &config)
	}
	if err != nil {
		r.fail(&resp.Diagnostics, "create", &m, err)
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
}

// absent returns an error if creating a resource would change one that exists.
func (r *Resource[M]) absent(ctx context.Context, m *M) error {
	if !r.kind.Upsert {
		return nil
	}
	id := r.kind.ID(m)
	found := r.kind.Empty(id)
	if err := r.kind.Read(ctx, r.client, &found, true); err != nil {
		if gone(err) {
			return nil
		}
		return err
	}
	return fmt.Errorf("%s %q exists already: import it: terraform import holdfast_%s.NAME %s",
		r.kind.Name, id, r.kind.Name, id)
}

// Read implements resource.Resource.
func (r *Resource[M]) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var m M
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	switch err := r.kind.Read(ctx, r.client, &m, false); {
	case err == nil:
		resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
	case gone(err):
		resp.State.RemoveResource(ctx)
	default:
		r.fail(&resp.Diagnostics, "read", &m, err)
	}
}

// Update implements resource.Resource.
func (r *Resource[M]) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var was, m, config M
	resp.Diagnostics.Append(req.State.Get(ctx, &was)...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if err := r.kind.Update(ctx, r.client, &was, &m, &config); err != nil {
		r.fail(&resp.Diagnostics, "update", &was, err)
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
}

// Delete implements resource.Resource. Deleting a resource that is gone succeeds.
func (r *Resource[M]) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var m M
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	err := r.mayDelete(ctx, &m)
	if err == nil {
		err = r.kind.Delete(ctx, r.client, &m)
	}
	switch {
	case err == nil || gone(err):
		return
	case r.kind.Retained != nil:
		if warning := r.kind.Retained(&m, err); warning != "" {
			resp.Diagnostics.AddWarning(fmt.Sprintf("The server keeps %s %q", r.kind.Name, r.kind.ID(&m)), warning)
			return
		}
	}
	r.fail(&resp.Diagnostics, "delete", &m, err)
}

func (r *Resource[M]) mayDelete(ctx context.Context, m *M) error {
	if r.kind.MayDelete == nil {
		return nil
	}
	return r.kind.MayDelete(ctx, r.client, m)
}

// ImportState implements resource.ResourceWithImportState. The id is that of the API.
func (r *Resource[M]) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	m := r.kind.Empty(req.ID)
	if err := r.kind.Read(ctx, r.client, &m, true); err != nil {
		resp.Diagnostics.AddAttributeError(path.Root(r.kind.Key), fmt.Sprintf("Cannot import %s %q", r.kind.Name, req.ID),
			Message(err))
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
}
