// Package plans has the rules of plans that depend on a plan alone: the built-in ones, whether one
// is valid, the parameters that its steps read, and which limits apply to its runs. It must not
// know which plans are stored or running.
package plans

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/proto/holdfast/stepkind"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// NotFound returns the refusal of a command that names an unknown plan.
func NotFound(id string) *refusal.Error {
	return refusal.New(refusal.NotFound, "PLAN_NOT_FOUND", "plan %q not found", id).With("plan_id", id)
}

// Braked reports whether a plan has a brake. Plans that only inspect or operate one machine
// have none.
func Braked(p *holdfastv1.Plan) bool {
	return slices.ContainsFunc(p.GetSteps(), func(s *holdfastv1.Step) bool {
		return !stepkind.Of(s).GetUnbraked()
	})
}

// Concurrent reports whether runs of a plan may run at the same time as the active run of their
// machine.
func Concurrent(p *holdfastv1.Plan) bool {
	exclusive := func(s *holdfastv1.Step) bool { return !stepkind.Of(s).GetConcurrent() }
	return len(p.GetSteps()) > 0 && !slices.ContainsFunc(p.GetSteps(), exclusive)
}

// NodeState returns the node state during a run of a plan, or unspecified if the plan does
// not determine it.
func NodeState(p *holdfastv1.Plan) holdfastv1.Node_State {
	if Installs(p) {
		return holdfastv1.Node_INSTALLING
	}
	return holdfastv1.Node_NODE_STATE_UNSPECIFIED
}

// Installs reports whether a plan writes an image to the disk.
func Installs(p *holdfastv1.Plan) bool {
	return slices.ContainsFunc(p.GetSteps(), func(s *holdfastv1.Step) bool { return s.GetRepave() != nil })
}

// NeedsImage reports whether a plan has a step that installs the image of its run.
func NeedsImage(p *holdfastv1.Plan) bool {
	return slices.ContainsFunc(p.GetSteps(), func(s *holdfastv1.Step) bool {
		return s.GetRepave() != nil && s.GetRepave().GetImage() == ""
	})
}

// CheckReplace returns an error if a plan may not be replaced.
func CheckReplace(old *holdfastv1.Plan, replace bool) *refusal.Error {
	switch id := old.GetPlanId(); {
	case !replace:
		return refusal.New(refusal.AlreadyExists, "PLAN_EXISTS",
			"plan %q exists with other content: use a new plan_id, or replace it while no run refers to it", id)
	case old.GetReferenced():
		return refusal.New(refusal.FailedPrecondition, "PLAN_REFERENCED",
			"plan %q is immutable since a run refers to it: use a new plan_id", id)
	case old.GetBuiltIn():
		return refusal.New(refusal.FailedPrecondition, "PLAN_BUILT_IN", "plan %q is built in: use a new plan_id", id)
	}
	return nil
}

// Written returns the fields of a plan that its author has set. Its parts are shared.
func Written(p *holdfastv1.Plan) *holdfastv1.Plan {
	return &holdfastv1.Plan{PlanId: p.GetPlanId(), DisplayName: p.GetDisplayName(), Steps: p.GetSteps(),
		Params: p.GetParams()}
}

// Same reports whether two plans were written alike.
func Same(a, b *holdfastv1.Plan) bool { return proto.Equal(Written(a), Written(b)) }

// Ramped reports whether a ramp limits the runs of a plan: runs that erase a disk, remove a
// machine, or may disconnect it from the network.
func Ramped(p *holdfastv1.Plan) bool {
	return slices.ContainsFunc(p.GetSteps(), func(s *holdfastv1.Step) bool {
		return stepkind.Of(s).GetRamped()
	})
}

// RampOf returns the position of the ramp of an image and a pool in a plan, or -1.
func RampOf(p *holdfastv1.Plan, image, pool string) int {
	return slices.IndexFunc(p.GetRamps(), func(r *holdfastv1.PlanRamp) bool {
		return r.GetImage() == image && r.GetPool() == pool
	})
}

// BrakeOf returns the brake that holds the runs of a plan on machines of a pool, or nil.
func BrakeOf(p *holdfastv1.Plan, pool string) *holdfastv1.PlanBrake {
	if b := p.GetBrake(); b.GetFleet() || b != nil && pool == "" {
		return b
	}
	for _, b := range p.GetHeld() {
		if b.GetPool() == pool {
			return b
		}
	}
	return nil
}
