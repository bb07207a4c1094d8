package kinds

import (
	"context"
	"errors"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/deploy/terraform/internal/crud"
	"github.com/holdfast-metal/holdfast/deploy/terraform/internal/values"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/cli/manifest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// reasonReferenced is the reason of the server's refusal to delete a plan that runs refer to.
const reasonReferenced = "PLAN_REFERENCED"

// plan is the model of holdfast_plan.
type plan struct {
	PlanID   types.String `tfsdk:"plan_id"`
	Document types.String `tfsdk:"document"`
}

func planKind() crud.Kind[plan] {
	return crud.Kind[plan]{
		Name: "plan", Key: "plan_id",
		Rename: map[string]string{"plan_id": "document", "display_name": "document", "steps": "document",
			"params": "document"},
		Schema: schema.Schema{
			Description: "A plan. It is stored, and no run is started.",
			Attributes: map[string]schema.Attribute{
				"plan_id": schema.StringAttribute{Computed: true, Description: "The plan_id of the document",
					// Not a replacement while the document is unknown.
					PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()}},
				"document": schema.StringAttribute{Required: true,
					Description: "The plan as YAML or JSON, as in `holdfast apply -f`: plan_id, display_name, params, steps. " +
						"Its formatting is no difference.",
					PlanModifiers: []planmodifier.String{values.SameText{
						Describe: "both documents are the same plan", Same: samePlan}}},
			},
		},
		ID:    planID,
		Empty: func(id string) plan { return plan{PlanID: types.StringValue(id)} },
		Read: func(ctx context.Context, c *client.Client, p *plan, _ bool) error {
			live, err := c.Plans().GetPlan(ctx, &holdfastv1.GetPlanRequest{PlanId: p.PlanID.ValueString()})
			if err != nil {
				return err
			}
			return p.fill(live)
		},
		Create: func(ctx context.Context, c *client.Client, p, _ *plan) error { return p.put(ctx, c, false) },
		Update: func(ctx context.Context, c *client.Client, was, p, _ *plan) error {
			if planID(p) != was.PlanID.ValueString() {
				return errors.New("the plan_id of the document changed during this apply: apply again")
			}
			return p.put(ctx, c, true)
		},
		Delete: func(ctx context.Context, c *client.Client, p *plan) error {
			_, err := c.Plans().DeletePlan(ctx, &holdfastv1.DeletePlanRequest{PlanId: p.PlanID.ValueString()})
			return err
		},
		Check: checkPlan,
		Complete: func(p *plan) {
			if !p.Document.IsUnknown() {
				p.PlanID = types.StringValue(planID(p))
			}
		},
		Preview: func(ctx context.Context, c *client.Client, was, p *plan) error {
			doc, err := parsePlan(p.Document.ValueString())
			if err != nil {
				return err
			}
			_, err = c.Plans().CreatePlan(ctx, &holdfastv1.CreatePlanRequest{Plan: doc, Replace: was != nil,
				ValidateOnly: true})
			return err
		},
		Retained: func(_ *plan, err error) string {
			if client.Reason(err) != reasonReferenced {
				return ""
			}
			return crud.Message(err) + ". It stays on the server, and Terraform no longer manages it."
		},
	}
}

// planID returns the id in the document; if the document is not known, the one of the state.
func planID(p *plan) string {
	if doc, err := parsePlan(p.Document.ValueString()); err == nil {
		return doc.GetPlanId()
	}
	return p.PlanID.ValueString()
}

func (p *plan) put(ctx context.Context, c *client.Client, replace bool) error {
	doc, err := parsePlan(p.Document.ValueString())
	if err != nil {
		return err
	}
	live, err := c.Plans().CreatePlan(ctx, &holdfastv1.CreatePlanRequest{Plan: doc, Replace: replace})
	if err != nil {
		return err
	}
	return p.fill(live)
}

// fill keeps a document that describes the plan of the server.
func (p *plan) fill(live *holdfastv1.Plan) error {
	p.PlanID = types.StringValue(live.GetPlanId())
	if doc, err := parsePlan(p.Document.ValueString()); err == nil && fsm.SamePlan(doc, live) {
		return nil
	}
	raw, err := manifest.Brief(fsm.WrittenPlan(live))
	if err != nil {
		return err
	}
	text, err := manifest.YAML(raw)
	p.Document = types.StringValue(string(text))
	return err
}

// parsePlan returns the plan of a document.
func parsePlan(text string) (*holdfastv1.Plan, error) {
	docs, err := manifest.Decode([]manifest.Source{{File: "document", Data: []byte(text)}}, "plans",
		func() *holdfastv1.Plan { return &holdfastv1.Plan{} })
	if err != nil {
		return nil, err
	}
	if len(docs) != 1 {
		return nil, errors.New("document: it has more than one plan: give each a resource of its own")
	}
	p := docs[0]
	return fsm.WrittenPlan(p), nil
}

func samePlan(was, now string) bool {
	a, errA := parsePlan(was)
	b, errB := parsePlan(now)
	return errA == nil && errB == nil && fsm.SamePlan(a, b)
}

func checkPlan(p *plan) []crud.Violation {
	doc, err := parsePlan(p.Document.ValueString())
	if err != nil {
		return []crud.Violation{{Field: "document", Text: err.Error()}}
	}
	return violations(fsm.ValidatePlan(doc))
}
