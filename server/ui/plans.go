package ui

import (
	"cmp"
	"context"
	"net/url"
	"time"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/filter"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/internal/display"
	"github.com/holdfast-metal/holdfast/server/ui/internal/lists"
	"github.com/holdfast-metal/holdfast/server/ui/internal/runform"
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
	Params     []*holdfastv1.Param
	Runs       []*holdfastv1.Run
	MoreRuns   string
	MayRelease bool
	MayProbe   bool
	MayCheck   bool
}

func (d *dashboard) plan(v *visit) error {
	id := v.r.PathValue("id")
	p, err := v.read.plans.GetPlan(v.ctx, &holdfastv1.GetPlanRequest{PlanId: id})
	if err != nil {
		return err
	}
	req := &holdfastv1.ListRunsRequest{Filter: filter.Equals("plan_id", id), PageSize: 20}
	runs, err := v.read.runs.ListRuns(v.ctx, req)
	b := planBody{Plan: p, Steps: display.PlanSteps(p, nil), Params: fsm.PlanParams(p), Runs: runs.GetRuns()}
	if runs.GetNextPageToken() != "" {
		b.MoreRuns = display.Link("/ui/runs", "filter", filter.Equals("plan_id", id))
	}
	// The brake of the fleet needs an operator of all pools.
	b.MayRelease = p.GetBrake() != nil && (!p.GetBrake().GetFleet() || seesFleet(v.who)) &&
		v.may("PlanService/ReleasePlan")
	b.MayProbe, b.MayCheck = v.may("PlanService/ProbePlan"), v.may("PlanService/CreatePlan")
	return v.page("plan", cmp.Or(p.GetDisplayName(), id), "plans", b, err)
}

// probeTimeout is the timeout of probes, which the API completes within 25 seconds.
const probeTimeout = 30 * time.Second

// probeBody is the page that probes whether a plan would succeed on a machine.
type probeBody struct {
	Plan   *holdfastv1.Plan
	Fields []runform.Field
	Form   url.Values
	Probes []*holdfastv1.Probe
	Fails  int
	Open   int // number of inconclusive probes
}

// Value returns the submitted value of a field.
func (b probeBody) Value(name string) string { return b.Form.Get(name) }

func (v *visit) probeForm(form url.Values) (probeBody, error) {
	p, err := v.read.plans.GetPlan(v.ctx, &holdfastv1.GetPlanRequest{PlanId: v.r.PathValue("id")})
	return probeBody{Plan: p, Fields: runform.Fields(p, form), Form: form}, err
}

func (d *dashboard) showProbe(v *visit) error {
	b, err := v.probeForm(v.r.URL.Query())
	if err != nil {
		return err
	}
	return v.page("probe", "Try "+b.Plan.GetPlanId(), "plans", b, nil)
}

// probe makes the leader probe the machine. It is a form and not a link, because probes log
// in to the BMC.
func (d *dashboard) probe(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	b, err := v.probeForm(form)
	if err != nil {
		return err
	}
	params, err := runform.Values(b.Plan, form)
	if err == nil {
		var resp *holdfastv1.ProbePlanResponse
		ctx, cancel := context.WithTimeout(v.r.Context(), probeTimeout) // BMCs are slow
		defer cancel()
		resp, err = v.write.plans.ProbePlan(ctx, &holdfastv1.ProbePlanRequest{
			MachineId: form.Get("machine"),
			PlanId:    b.Plan.GetPlanId(),
			Params:    params,
		})
		b.Probes = resp.GetProbes()
	}
	for _, p := range b.Probes {
		switch p.GetVerdict() {
		case holdfastv1.Probe_FAILS:
			b.Fails++
		case holdfastv1.Probe_UNKNOWN, holdfastv1.Probe_VERDICT_UNSPECIFIED:
			b.Open++
		}
	}
	return v.page("probe", "Try "+b.Plan.GetPlanId(), "plans", b, err)
}
