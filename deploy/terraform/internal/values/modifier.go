package values

import (
	"context"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
)

// SameText is a plan modifier that keeps the text of the state if a function reports that the
// planned one means the same. Describe completes "the value is kept if ".
type SameText struct {
	Describe string
	Same     func(was, now string) bool
}

// Description implements planmodifier.Describer.
func (m SameText) Description(context.Context) string { return "the value is kept if " + m.Describe }

// MarkdownDescription implements planmodifier.Describer.
func (m SameText) MarkdownDescription(ctx context.Context) string { return m.Description(ctx) }

// PlanModifyString implements planmodifier.String.
func (m SameText) PlanModifyString(
	_ context.Context, req planmodifier.StringRequest, resp *planmodifier.StringResponse,
) {
	if req.StateValue.IsNull() || req.PlanValue.IsNull() || req.PlanValue.IsUnknown() {
		return
	}
	if m.Same(req.StateValue.ValueString(), req.PlanValue.ValueString()) {
		resp.PlanValue = req.StateValue
	}
}

// SameMACs is a plan modifier that keeps a set of MAC addresses if only their notation differs.
type SameMACs struct{}

// Description implements planmodifier.Describer.
func (SameMACs) Description(context.Context) string {
	return "the notation of addresses is no difference"
}

// MarkdownDescription implements planmodifier.Describer.
func (m SameMACs) MarkdownDescription(ctx context.Context) string { return m.Description(ctx) }

// PlanModifySet implements planmodifier.Set.
func (SameMACs) PlanModifySet(_ context.Context, req planmodifier.SetRequest, resp *planmodifier.SetResponse) {
	was, now := req.StateValue, req.PlanValue
	if was.IsNull() || now.IsNull() || now.IsUnknown() || len(Texts(now)) != len(now.Elements()) {
		return
	}
	if slices.Equal(sorted(Texts(was), MAC), sorted(Texts(now), MAC)) {
		resp.PlanValue = was
	}
}
