package ui

import (
	"cmp"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/internal/display"
)

type plansBody struct {
	Plans    []*holdfastv1.Plan
	Next     string
	MayCheck bool
}

func (d *dashboard) plans(v *visit) error {
	q := v.r.URL.Query()
	resp, err := v.read.plans.ListPlans(v.ctx, &holdfastv1.ListPlansRequest{PageSize: rows, PageToken: q.Get("page")})
	b := plansBody{Plans: resp.GetPlans(), MayCheck: v.rules.may(v.who, "PlanService/CreatePlan")}
	if t := resp.GetNextPageToken(); t != "" {
		b.Next = display.Link("/ui/plans", "page", t)
	}
	return v.page("plans", "Plans", "plans", b, err)
}

// planBody is the page of one plan.
type planBody struct {
	Plan       *holdfastv1.Plan
	Steps      []display.PlanStep
	Runs       []*holdfastv1.Run
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
	b.MayRelease = p.GetBrake() != nil && v.rules.may(v.who, "PlanService/ReleasePlan")
	b.MayTry, b.MayCheck = v.rules.may(v.who, "PlanService/ProbePlan"), v.rules.may(v.who, "PlanService/CreatePlan")
	return v.page("plan", cmp.Or(p.GetDisplayName(), id), "plans", b, err)
}
