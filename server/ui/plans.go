package ui

import (
	"cmp"
	"context"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/internal/display"
	"github.com/holdfast-metal/holdfast/server/ui/internal/lists"
)

type plansBody struct {
	Plans    []*holdfastv1.Plan
	MayCheck bool
	pageLinks
}

func (d *dashboard) plans(v *visit) error {
	b := plansBody{MayCheck: v.may("PlanService/CreatePlan")}
	var err error
	b.Plans, b.pageLinks, err = listed(v, "/ui/plans", lists.Kind{One: "plan", Many: "plans"}, "",
		func(ctx context.Context, q lists.Query) ([]*holdfastv1.Plan, string, error) {
			resp, err := v.read.plans.ListPlans(ctx, &holdfastv1.ListPlansRequest{PageSize: q.Size, PageToken: q.Page})
			return resp.GetPlans(), resp.GetNextPageToken(), err
		})
	return v.page("plans", "Plans", "plans", b, err)
}

// allPlans returns all plans, by id.
func (v *visit) allPlans() ([]*holdfastv1.Plan, error) {
	resp, err := v.read.plans.ListPlans(v.ctx, &holdfastv1.ListPlansRequest{PageSize: pageSize})
	return resp.GetPlans(), err
}

// planBody is the page of one plan.
type planBody struct {
	Plan       *holdfastv1.Plan
	Steps      []display.PlanStep
	Runs       []*holdfastv1.Run
	MoreRuns   string
	MayRelease bool
	MayTry     bool
	MayCheck   bool
}

func (d *dashboard) plan(v *visit) error {
	id := v.r.PathValue("id")
	p, err := v.read.plans.GetPlan(v.ctx, &holdfastv1.GetPlanRequest{PlanId: id})
	if err != nil {
		return err
	}
	req := &holdfastv1.ListRunsRequest{Filter: display.Equals("plan_id", id), PageSize: 20}
	runs, err := v.read.runs.ListRuns(v.ctx, req)
	b := planBody{Plan: p, Steps: display.PlanSteps(p), Runs: runs.GetRuns()}
	if runs.GetNextPageToken() != "" {
		b.MoreRuns = display.Link("/ui/runs", "filter", display.Equals("plan_id", id))
	}
	b.MayRelease = p.GetBrake() != nil && v.may("PlanService/ReleasePlan")
	b.MayTry, b.MayCheck = v.may("PlanService/ProbePlan"), v.may("PlanService/CreatePlan")
	return v.page("plan", cmp.Or(p.GetDisplayName(), id), "plans", b, err)
}
