package fsm

import (
	"iter"

	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

func planNotFound(id string) *Error {
	return refuse(NotFound, "PLAN_NOT_FOUND", "plan %q not found", id).With("plan_id", id)
}

// createPlan stores a plan. One that a run refers to never changes.
func (t *tx) createPlan(c *internalv1.CreatePlan) (*holdfastv1.Plan, *Error) {
	p := proto.CloneOf(c.GetPlan())
	if err := Invalid(ValidatePlan(p)); err != nil {
		return nil, err
	}
	p.BuiltIn, p.Referenced, p.CreatedAt, p.Brake, p.Recent = c.GetBuiltIn(), false, t.now, nil, nil
	p.Ramps, p.MaxActive = nil, 0
	if old, ok := t.plans.Get(p.GetPlanId()); ok {
		if SamePlan(old, p) {
			return old, nil
		}
		if err := CheckReplacePlan(old, c.GetReplace()); err != nil {
			return nil, err
		}
	}
	t.plans.Put(p)
	return p, nil
}

// CheckReplacePlan returns an error if a plan may not be replaced.
func CheckReplacePlan(old *holdfastv1.Plan, replace bool) *Error {
	switch id := old.GetPlanId(); {
	case !replace:
		return refuse(AlreadyExists, "PLAN_EXISTS",
			"plan %q exists with other content: use a new plan_id, or replace it while no run refers to it", id)
	case old.GetReferenced():
		return refuse(FailedPrecondition, "PLAN_REFERENCED",
			"plan %q is immutable since a run refers to it: use a new plan_id", id)
	case old.GetBuiltIn():
		return refuse(FailedPrecondition, "PLAN_BUILT_IN", "plan %q is built in: use a new plan_id", id)
	}
	return nil
}

// SamePlan reports whether two plans have the same id, display name and steps.
func SamePlan(a, b *holdfastv1.Plan) bool {
	bare := func(p *holdfastv1.Plan) *holdfastv1.Plan {
		return &holdfastv1.Plan{PlanId: p.GetPlanId(), DisplayName: p.GetDisplayName(), Steps: p.GetSteps()}
	}
	return proto.Equal(bare(a), bare(b))
}

func (t *tx) deletePlan(c *internalv1.DeletePlan) *Error {
	p, ok := t.plans.Get(c.GetPlanId())
	switch {
	case !ok:
		return planNotFound(c.GetPlanId())
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
