package runs

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/plans"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// A destructive plan starts with few machines and reaches more as its runs succeed, so that a
// bad image costs a few disks and not a fleet. The ramp is part of the replicated state, so a
// new leader continues it.
const (
	rampFirst = 5         // concurrent runs before the first success
	rampIdle  = time.Hour // idle time after which a ramp starts again
	// Images of one plan with a ramp. The least recently used one starts again.
	maxRamps      = 8
	maxPlanActive = 1_000_000 // bound of an operator's limit
)

// runningCount returns the number of runs of a cohort that have begun and not ended.
func runningCount(s *core.State, c schema.Cohort) int {
	key := c.Key()
	return s.Runs.Count(schema.RunsRunning, key+"\x01") - s.Runs.Count(schema.RunsRunning, key)
}

// rampLimit returns the maximum number of concurrent runs of a cohort, or 0 if there is no
// limit.
func rampLimit(s *core.State, p *holdfastv1.Plan, c schema.Cohort) int {
	switch i := plans.RampOf(p, c.Image); {
	case p.GetMaxActive() > 0:
		return int(p.GetMaxActive())
	case !plans.Ramped(p):
		return 0
	case i >= 0:
		return int(p.GetRamps()[i].GetLimit())
	}
	return rampFirst
}

// heldBy returns the reason why a pending run must wait: the release of its plan, or a place
// in the ramp. It returns "" if the run may begin. The plan may be nil.
func heldBy(s *core.State, p *holdfastv1.Plan, run *holdfastv1.Run) string {
	if p.GetBrake() != nil {
		return "the release of plan " + p.GetPlanId() + ": " + p.GetBrake().GetFailure()
	}
	c := schema.CohortOf(run)
	limit := rampLimit(s, p, c)
	if limit == 0 || runningCount(s, c) < limit {
		return ""
	}
	what := "plan " + c.Plan
	if c.Image != "" {
		what += " with image " + c.Image
	}
	if p.GetMaxActive() > 0 {
		return fmt.Sprintf("a run of %s to end: %d are running, the limit that an operator has set", what, limit)
	}
	return fmt.Sprintf("a run of %s to end: %d are running, and more may begin as runs succeed", what, limit)
}

// noteRamp updates the ramp after a run has ended, and holds the plan if its runs fail on one
// machine after another, for any reasons.
func noteRamp(t *core.Tx, p *holdfastv1.Plan, run *holdfastv1.Run, o *holdfastv1.PlanOutcome) {
	r := &holdfastv1.PlanRamp{Image: schema.CohortOf(run).Image, Limit: rampFirst}
	if i := plans.RampOf(p, r.GetImage()); i >= 0 {
		r = proto.CloneOf(p.GetRamps()[i])
		p.Ramps = slices.Concat(p.GetRamps()[:i], p.GetRamps()[i+1:])
	}
	p.Ramps = append(slices.Clip(p.GetRamps()), r)
	if n := len(p.GetRamps()) - maxRamps; n > 0 {
		p.Ramps = slices.Clone(p.GetRamps()[n:])
	}
	r.UpdatedAt = t.Now
	if o.GetFailure() == "" {
		r.Limit = min(r.GetLimit()+1, maxPlanActive)
		if len(r.GetFailed()) > 0 {
			r.Failed = slices.Clone(r.GetFailed()[1:])
		}
		return
	}
	r.Limit = max(rampFirst, r.GetLimit()/2)
	if !slices.Contains(r.GetFailed(), run.GetMachineId()) {
		r.Failed = append(r.GetFailed(), run.GetMachineId())
	}
	if n := len(r.GetFailed()); n >= brakeMachines && p.GetBrake() == nil {
		p.Brake = &holdfastv1.PlanBrake{Failure: o.GetFailure(), Machines: int32(n), Runs: int32(len(p.GetRecent())),
			LastError: run.GetError().GetMessage(), Since: t.Now}
		r.Failed = nil
	}
}

// restartRamp resets the ramp of a run's cohort if no run of it is active and none has ended
// for a while: the plan may install something else by now.
func restartRamp(t *core.Tx, run *holdfastv1.Run) {
	shared, _ := t.Plans.Get(run.GetPlanId())
	c := schema.CohortOf(run)
	i := plans.RampOf(shared, c.Image)
	if i < 0 || runningCount(t.State, c) > 0 ||
		t.Now.AsTime().Sub(shared.GetRamps()[i].GetUpdatedAt().AsTime()) < rampIdle {
		return
	}
	if p, ok := t.Plans.Edit(run.GetPlanId()); ok {
		p.Ramps = slices.Delete(p.GetRamps(), i, i+1)
		t.Plans.Put(p)
	}
}

// MayBegin reports whether another run of a cohort may begin while active runs of it are running.
func (v *View) MayBegin(c schema.Cohort, active int) bool {
	p, ok := v.Plan(c.Plan)
	if !ok {
		return true
	}
	limit := rampLimit(v.s, p, c)
	return p.GetBrake() == nil && (limit == 0 || active < limit)
}
