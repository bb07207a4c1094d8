package ui

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// compareBody is the comparison of two plans.
type compareBody struct {
	Plans []*holdfastv1.Plan // the plans to choose from
	A, B  string
	Lines []diffLine
	Same  bool
}

func (d *dashboard) compare(v *visit) error {
	q := v.r.URL.Query()
	b := compareBody{A: q.Get("a"), B: q.Get("b")}
	plans, err := v.read.plans.ListPlans(v.ctx, &holdfastv1.ListPlansRequest{PageSize: pageSize})
	if b.Plans = plans.GetPlans(); err != nil || b.A == "" || b.B == "" {
		return v.page("compare", "Compare plans", "plans", b, err)
	}
	var texts []string
	for _, id := range []string{b.A, b.B} {
		p, err := v.read.plans.GetPlan(v.ctx, &holdfastv1.GetPlanRequest{PlanId: id})
		if err != nil {
			return v.page("compare", "Compare plans", "plans", b, err)
		}
		texts = append(texts, planText(p))
	}
	b.Lines, err = diffTexts(texts[0], texts[1])
	b.Same = err == nil && texts[0] == texts[1]
	return v.page("compare", "Compare plans", "plans", b, err)
}

// planText returns a plan as YAML, without the fields that the cluster adds.
func planText(p *holdfastv1.Plan) string {
	p = proto.CloneOf(p)
	p.BuiltIn, p.Referenced, p.CreatedAt, p.Brake, p.Recent = false, false, nil, nil, nil
	raw, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(p)
	if err != nil {
		return "# " + err.Error() + "\n"
	}
	text, err := yaml.JSONToYAML(raw)
	if err != nil {
		return "# " + err.Error() + "\n"
	}
	return string(text)
}

// readPlan parses a plan in YAML or JSON with the field names of the API. Unknown fields
// are an error.
func readPlan(text string) (*holdfastv1.Plan, error) {
	raw, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "parse plan: %v", err)
	}
	p := &holdfastv1.Plan{}
	if err := protojson.Unmarshal(raw, p); err != nil {
		message := strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\u00a0", " "), "proto: ")
		return nil, status.Errorf(codes.InvalidArgument, "parse plan: %s", message)
	}
	return p, nil
}

// diffLine is a line of a comparison: of one text, or common to both.
type diffLine struct{ Class, Mark, Text string }

// mostLines bounds the number of compared lines. The cost is the product of both.
const mostLines = 1500

// diffTexts returns the lines of a and b with a longest common subsequence marked as
// common.
func diffTexts(a, b string) ([]diffLine, error) {
	x, y := strings.Split(strings.TrimSuffix(a, "\n"), "\n"), strings.Split(strings.TrimSuffix(b, "\n"), "\n")
	if len(x) > mostLines || len(y) > mostLines {
		return nil, status.Errorf(codes.InvalidArgument,
			"compare %d lines with %d: the limit is %d: use holdfast plan get -o yaml and a diff tool",
			len(x), len(y), mostLines)
	}
	// common[i][j] is the length of the longest common subsequence of x[i:] and y[j:].
	common := make([][]uint16, len(x)+1)
	for i := range common {
		common[i] = make([]uint16, len(y)+1)
	}
	for i := range slices.Backward(x) {
		for j := range slices.Backward(y) {
			if x[i] == y[j] {
				common[i][j] = common[i+1][j+1] + 1
				continue
			}
			common[i][j] = max(common[i+1][j], common[i][j+1])
		}
	}
	var all []diffLine
	i, j := 0, 0
	for i < len(x) || j < len(y) {
		switch {
		case i < len(x) && j < len(y) && x[i] == y[j]:
			all = append(all, diffLine{"d-both", " ", x[i]})
			i, j = i+1, j+1
		case j == len(y) || i < len(x) && common[i+1][j] >= common[i][j+1]:
			all = append(all, diffLine{"d-out", "−", x[i]})
			i++
		default:
			all = append(all, diffLine{"d-in", "+", y[j]})
			j++
		}
	}
	return all, nil
}

// checkBody is the page that checks a plan.
type checkBody struct {
	Text    string
	Plan    *holdfastv1.Plan // as it would be stored; nil if there is no valid plan
	Steps   []planStep
	Stored  *holdfastv1.Plan // the stored plan with the same id
	Lines   []diffLine       // the difference from the stored plan
	Changed bool
	Fields  []string // errors by field
}

// longestPlan bounds the size of a plan in the form.
const longestPlan = 256 << 10

func (d *dashboard) askCheck(v *visit) error {
	b := checkBody{}
	if id := v.r.URL.Query().Get("from"); id != "" {
		p, err := v.read.plans.GetPlan(v.ctx, &holdfastv1.GetPlanRequest{PlanId: id})
		if err != nil {
			return err
		}
		b.Text = planText(p)
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
	p, err := readPlan(b.Text)
	switch {
	case len(b.Text) > longestPlan:
		err = status.Errorf(codes.InvalidArgument,
			"the plan has %d bytes, the limit is %d: use holdfast plan validate", len(b.Text), longestPlan)
	case err == nil:
		err = b.check(v, p)
	}
	return v.page("check", "Check a plan", "plans", b, err)
}

func (b *checkBody) check(v *visit, p *holdfastv1.Plan) error {
	req := &holdfastv1.CreatePlanRequest{Plan: p, Replace: true, ValidateOnly: true}
	p, err := v.write.plans.CreatePlan(v.ctx, req)
	for _, f := range fieldsOf(err) {
		b.Fields = append(b.Fields, fmt.Sprintf("%s: %s", f.GetField(), f.GetDescription()))
	}
	if err != nil {
		return err
	}
	b.Plan, b.Steps = p, planSteps(p)
	stored, err := v.read.plans.GetPlan(v.ctx, &holdfastv1.GetPlanRequest{PlanId: p.GetPlanId()})
	if status.Code(err) == codes.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	b.Stored = stored
	was, now := planText(stored), planText(p)
	b.Changed = was != now
	b.Lines, err = diffTexts(was, now)
	return err
}
