package crud

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ValidateConfig implements resource.ResourceWithValidateConfig. It needs no server.
func (r *Resource[M]) ValidateConfig(
	ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse,
) {
	if r.kind.Check == nil {
		return
	}
	var m M
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	for _, v := range r.kind.Check(&m) {
		if name, _ := r.attribute(r.field(v)); name != "" && !known(ctx, req.Config, name) {
			continue // it is checked when it is known
		}
		r.wrong(&resp.Diagnostics, fmt.Sprintf("Invalid %s %q", r.kind.Name, r.kind.ID(&m)), v)
	}
}

// known reports whether an attribute of a configuration has no unknown part.
func known(ctx context.Context, c tfsdk.Config, name string) bool {
	var v attr.Value
	if c.GetAttribute(ctx, path.Root(name), &v).HasError() || v == nil {
		return true
	}
	raw, err := v.ToTerraformValue(ctx)
	return err != nil || raw.IsFullyKnown()
}

// ModifyPlan implements resource.ResourceWithModifyPlan: another id means another resource, and the
// plan fails if the server would refuse the change.
func (r *Resource[M]) ModifyPlan(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	var was, m M
	exists := !req.State.Raw.IsNull()
	if exists {
		resp.Diagnostics.Append(req.State.Get(ctx, &was)...)
	}
	if req.Plan.Raw.IsNull() {
		if !resp.Diagnostics.HasError() && r.client != nil {
			if err := r.mayDelete(ctx, &was); err != nil && !gone(err) {
				r.fail(&resp.Diagnostics, "delete", &was, err)
			}
		}
		return
	}
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() || req.Plan.Raw.Equal(req.State.Raw) {
		return
	}
	if r.kind.Complete != nil {
		r.kind.Complete(&m)
		resp.Diagnostics.Append(resp.Plan.Set(ctx, &m)...)
	}
	if exists && r.kind.ID(&m) != r.kind.ID(&was) {
		resp.RequiresReplace = append(resp.RequiresReplace, path.Root(r.kind.Key))
		exists = false
	}
	if r.client == nil || r.kind.Preview == nil || !req.Config.Raw.IsFullyKnown() {
		return
	}
	old := &was
	if !exists {
		old = nil
	}
	err := r.kind.Preview(ctx, r.client, old, &m)
	switch status.Code(err) {
	case codes.OK:
	case codes.PermissionDenied: // a viewer may plan
		resp.Diagnostics.AddWarning(fmt.Sprintf("The server has not checked %s %q", r.kind.Name, r.kind.ID(&m)), Message(err))
	default:
		r.fail(&resp.Diagnostics, "plan", &m, err)
	}
}
