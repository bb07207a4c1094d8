package ui

import (
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/httpjson"
	"github.com/holdfast-metal/holdfast/server/ui/internal/display"
)

// compareBody is the comparison of two plans.
type compareBody struct {
	Plans []*holdfastv1.Plan // the plans to choose from
	A, B  string
	Lines []display.DiffLine
	Same  bool
}

func (d *dashboard) compare(v *visit) error {
	q := v.r.URL.Query()
	b := compareBody{A: q.Get("a"), B: q.Get("b")}
	var err error
	if b.Plans, err = v.allPlans(); err != nil || b.A == "" || b.B == "" {
		return v.page("compare", "Compare plans", "plans", b, err)
	}
	var texts []string
	for _, id := range []string{b.A, b.B} {
		p, err := v.read.plans.GetPlan(v.ctx, &holdfastv1.GetPlanRequest{PlanId: id})
		if err != nil {
			return v.page("compare", "Compare plans", "plans", b, err)
		}
		texts = append(texts, display.PlanText(p))
	}
	b.Lines, err = display.DiffTexts(texts[0], texts[1])
	b.Same = err == nil && texts[0] == texts[1]
	return v.page("compare", "Compare plans", "plans", b, err)
}

// checkBody is the page that checks a plan.
type checkBody struct {
	Text    string
	Plan    *holdfastv1.Plan // as it would be stored; nil if there is no valid plan
	Steps   []display.PlanStep
	Stored  *holdfastv1.Plan   // the stored plan with the same id
	Lines   []display.DiffLine // the difference from the stored plan
	Changed bool
	Fields  []string // errors by field
}

// maxPlan is the maximum size of a plan in the form, in bytes.
const maxPlan = 256 << 10

func (d *dashboard) askCheck(v *visit) error {
	b := checkBody{}
	if id := v.r.URL.Query().Get("from"); id != "" {
		p, err := v.read.plans.GetPlan(v.ctx, &holdfastv1.GetPlanRequest{PlanId: id})
		if err != nil {
			return err
		}
		b.Text = display.PlanText(p)
	}
	return v.page("check", "Check a plan", "plans", b, nil)
}

// check validates a plan with the API and shows the difference from the stored one. Nothing
// is stored.
func (d *dashboard) check(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	b := checkBody{Text: strings.ReplaceAll(form.Get("plan"), "\r\n", "\n")}
	err = b.check(v)
	return v.page("check", "Check a plan", "plans", b, err)
}

func (b *checkBody) check(v *visit) error {
	if len(b.Text) > maxPlan {
		return status.Errorf(codes.InvalidArgument,
			"the plan has %d bytes, the limit is %d: use holdfast plan validate", len(b.Text), maxPlan)
	}
	p, err := display.ReadPlan(b.Text)
	if err != nil {
		return err
	}
	p, err = v.write.plans.CreatePlan(v.ctx, &holdfastv1.CreatePlanRequest{Plan: p, Replace: true, ValidateOnly: true})
	for _, f := range httpjson.Fields(err) {
		b.Fields = append(b.Fields, fmt.Sprintf("%s: %s", f.GetField(), f.GetDescription()))
	}
	if err != nil {
		return err
	}
	b.Plan, b.Steps = p, display.PlanSteps(p, nil)
	stored, err := v.read.plans.GetPlan(v.ctx, &holdfastv1.GetPlanRequest{PlanId: p.GetPlanId()})
	if status.Code(err) == codes.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	b.Stored = stored
	was, now := display.PlanText(stored), display.PlanText(p)
	b.Changed = was != now
	b.Lines, err = display.DiffTexts(was, now)
	return err
}
