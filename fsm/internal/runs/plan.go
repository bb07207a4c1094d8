package runs

import (
	"iter"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/plans"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// CreatePlan stores a plan. One that a run refers to never changes.
func CreatePlan(t *core.Tx, c *internalv1.CreatePlan) (*holdfastv1.Plan, *refusal.Error) {
	p := proto.CloneOf(c.GetPlan())
	if err := refusal.Invalid(plans.Validate(p)); err != nil {
		return nil, err
	}
	p.BuiltIn, p.Referenced, p.CreatedAt, p.Brake, p.Recent = c.GetBuiltIn(), false, t.Now, nil, nil
	p.Ramps, p.MaxActive, p.Held = nil, 0, nil
	if old, ok := t.Plans.Get(p.GetPlanId()); ok {
		if plans.Same(old, p) {
			return old, nil
		}
		if err := plans.CheckReplace(old, c.GetReplace()); err != nil {
			return nil, err
		}
	}
	t.Plans.Put(p)
	return p, nil
}

// DeletePlan deletes a plan that no run refers to.
func DeletePlan(t *core.Tx, c *internalv1.DeletePlan) *refusal.Error {
	p, ok := t.Plans.Get(c.GetPlanId())
	switch {
	case !ok:
		return plans.NotFound(c.GetPlanId())
	case p.GetReferenced():
		return refusal.New(refusal.FailedPrecondition, "PLAN_REFERENCED",
			"plan %q cannot be deleted: a run refers to it",
			p.GetPlanId())
	case p.GetBuiltIn():
		return refusal.New(refusal.FailedPrecondition, "PLAN_BUILT_IN", "plan %q cannot be deleted: it is built in",
			p.GetPlanId())
	}
	t.Plans.Delete(p.GetPlanId())
	return nil
}

// Plan returns a plan.
func (v *View) Plan(id string) (*holdfastv1.Plan, bool) { return v.s.Plans.Get(id) }

// Plans returns the plans with an id above after, by id.
func (v *View) Plans(after string) iter.Seq[*holdfastv1.Plan] { return v.s.Plans.Ascend("", after) }
