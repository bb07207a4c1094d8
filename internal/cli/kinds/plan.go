package kinds

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Plan returns the kind of plans.
func Plan() output.Kind[*holdfastv1.Plan] {
	return output.Kind[*holdfastv1.Plan]{
		Noun: "plan", List: "plans",
		Name:   (*holdfastv1.Plan).GetPlanId,
		Header: []string{"PLAN", "NAME", "STEPS", "BUILT-IN", "USED", "HELD", "CREATED"},
		Wide:   []string{"STEP NAMES"},
		Row: func(p *holdfastv1.Plan, now time.Time) []any {
			return []any{
				p.GetPlanId(), p.GetDisplayName(), len(p.GetSteps()), p.GetBuiltIn(),
				p.GetReferenced(), held(p, now), app.Age(now, p.GetCreatedAt()),
				strings.Join(app.Mapped(p.GetSteps(), (*holdfastv1.Step).GetName), ","),
			}
		},
		Page: func(ctx context.Context, c *client.Client, q output.Query) ([]*holdfastv1.Plan, string, error) {
			r, err := c.Plans().ListPlans(ctx, &holdfastv1.ListPlansRequest{PageSize: q.Size, PageToken: q.Token})
			return r.GetPlans(), r.GetNextPageToken(), err
		},
		Get: GetPlan,
	}
}

// held returns the time since which the brake holds a plan.
func held(p *holdfastv1.Plan, now time.Time) render.Text {
	if p.GetBrake() == nil {
		return app.Plain("-")
	}
	return render.T(app.Age(now, p.GetBrake().GetSince()), render.Red)
}

func planSteps(p *holdfastv1.Plan) *render.Table {
	t := render.NewTable("STEP", "KIND", "TIMEOUT", "RETRIES", "PARAMETERS")
	for _, s := range p.GetSteps() {
		timeout, retries := "default", "default"
		if s.GetTimeoutSeconds() > 0 {
			timeout = describe.Duration(time.Duration(s.GetTimeoutSeconds()) * time.Second)
		}
		if s.MaxRetries != nil {
			retries = fmt.Sprint(s.GetMaxRetries())
		}
		kind, params := describe.Step(s, ",")
		var settings []string
		for _, p := range params {
			settings = append(settings, p.Name+"="+shorten(p.Value))
		}
		t.Row(s.GetName(), kind, timeout, retries, strings.Join(settings, " "))
	}
	return t
}

// PlanTables returns the steps of a plan, and the parameters of its runs if there are any.
func PlanTables(p *holdfastv1.Plan) []*render.Table {
	tables := []*render.Table{planSteps(p)}
	all := fsm.PlanParams(p)
	if len(all) == 0 {
		return tables
	}
	t := render.NewTable("PARAMETER", "VALUES", "DEFAULT", "DESCRIPTION")
	for _, d := range all {
		preset := d.GetDefault()
		if d.GetRequired() {
			preset = "required"
		}
		t.Row(d.GetName(), describe.ParamType(d), cmp.Or(preset, "-"), d.GetDescription())
	}
	return append(tables, t)
}

// shorten cuts a long script for the table.
func shorten(s string) string {
	const most = 40
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

// GetPlan returns a plan by its id.
func GetPlan(ctx context.Context, c *client.Client, id string) (*holdfastv1.Plan, error) {
	p, err := c.Plans().GetPlan(ctx, &holdfastv1.GetPlanRequest{PlanId: id})
	return p, app.Failed(err, "get plan %s", id)
}
