package fsm

import (
	"iter"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/plans"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// createPlan stores a plan. One that a run refers to never changes.
func (t *tx) createPlan(c *internalv1.CreatePlan) (*holdfastv1.Plan, *Error) {
	p := proto.CloneOf(c.GetPlan())
	if err := Invalid(plans.Validate(p)); err != nil {
		return nil, err
	}
	p.BuiltIn, p.Referenced, p.CreatedAt, p.Brake, p.Recent = c.GetBuiltIn(), false, t.now, nil, nil
	p.Ramps, p.MaxActive = nil, 0
	if old, ok := t.plans.Get(p.GetPlanId()); ok {
		if plans.Same(old, p) {
			return old, nil
		}
		if err := plans.CheckReplace(old, c.GetReplace()); err != nil {
			return nil, err
		}
	}
	t.plans.Put(p)
	return p, nil
}

func (t *tx) deletePlan(c *internalv1.DeletePlan) *Error {
	p, ok := t.plans.Get(c.GetPlanId())
	switch {
	case !ok:
		return plans.NotFound(c.GetPlanId())
	case p.GetReferenced():
		return refuse(FailedPrecondition, "PLAN_REFERENCED", "plan %q cannot be deleted: a run refers to it",
			p.GetPlanId())
	case p.GetBuiltIn():
		return refuse(FailedPrecondition, "PLAN_BUILT_IN", "plan %q cannot be deleted: it is built in", p.GetPlanId())
	}
	t.plans.Delete(p.GetPlanId())
	return nil
}

// Plan returns a plan.
func (v *View) Plan(id string) (*holdfastv1.Plan, bool) { return v.plans.Get(id) }

// Plans returns the plans with an id above after, by id.
func (v *View) Plans(after string) iter.Seq[*holdfastv1.Plan] { return v.plans.Ascend("", after) }

// CanonicalType returns the stored form of a run type: upper case with underscores
// (docs/clients.md, 002).
func CanonicalType(s string) (string, bool) { return plans.CanonicalType(s) }

// DefaultPlanID returns the plan of a canonical run type for requests that name none.
func DefaultPlanID(canonicalType string) string { return plans.DefaultID(canonicalType) }

// DefaultPlans returns the built-in plans: one per run type (docs/clients.md, 002), and one
// for each operation on a single machine. The first leader stores them, so that all peers
// have the same plans, whatever their versions.
func DefaultPlans() []*holdfastv1.Plan { return plans.Defaults() }

// Installs reports whether a plan writes an image to the disk.
func Installs(p *holdfastv1.Plan) bool { return plans.Installs(p) }

// CheckParams returns an error if a plan does not read one of a run's parameters, or requires
// one that is missing. With a mistyped name, the plan would otherwise run with a default,
// such as another image.
func CheckParams(plan *holdfastv1.Plan, params map[string]string) *Error {
	return plans.CheckParams(plan, params)
}

// CheckReplacePlan returns an error if a plan may not be replaced.
func CheckReplacePlan(old *holdfastv1.Plan, replace bool) *Error {
	return plans.CheckReplace(old, replace)
}

// SamePlan reports whether two plans have the same id, display name and steps.
func SamePlan(a, b *holdfastv1.Plan) bool { return plans.Same(a, b) }

// CheckMediaURL returns an error if the URL of an image for a virtual drive is invalid. It is
// recorded and visible to viewers, so it must not contain a password.
func CheckMediaURL(s string) error { return plans.CheckMediaURL(s) }

// KindOf returns the name of a step's kind, as run status and filters show it, or "".
func KindOf(s *holdfastv1.Step) string { return plans.KindOf(s) }

// ValidatePlan returns the violations of a plan, and sets the canonical case of its words.
// Unknown kinds and duplicate names are violations.
func ValidatePlan(p *holdfastv1.Plan) []FieldViolation { return plans.Validate(p) }

// plan returns a shared plan, which must not be changed.
func (t *tx) plan(id string) (*holdfastv1.Plan, bool) { return t.decoded.Get(t.plans, id) }

// SharedPlan returns a plan that is shared, unlike the one of Plan, and must not be changed.
func (v *View) SharedPlan(id string) (*holdfastv1.Plan, bool) { return v.decoded.Get(v.plans, id) }
