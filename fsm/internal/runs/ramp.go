package runs

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/limits"
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
	// Images of one plan with a ramp in a pool, and ramps of a plan. The least recently used one
	// starts again.
	maxRamps      = 8
	maxAllRamps   = 50 * maxRamps
	maxPlanActive = 1_000_000 // bound of an operator's limit
)

// runningCount returns the number of runs that have begun and not ended, of the cohorts whose keys
// begin with a key.
func runningCount(s *core.State, key string) int {
	return s.Runs.Count(schema.RunsRunning, key+"\xff") - s.Runs.Count(schema.RunsRunning, key)
}

// rampLimit returns the maximum number of concurrent runs of a cohort, or 0 if there is no
// limit. An operator's limit replaces the ramp, and counts the runs of all pools.
func rampLimit(p *holdfastv1.Plan, c schema.Cohort) int {
	switch i := plans.RampOf(p, c.Image, c.Pool); {
	case p.GetMaxActive() > 0 || !plans.Ramped(p):
		return 0
	case i >= 0:
		return int(p.GetRamps()[i].GetLimit())
	}
	return rampFirst
}

// noteRamp updates the ramp after a run has ended, and holds the plan if its runs fail on one
// machine after another, for any reasons.
func noteRamp(t *core.Tx, p *holdfastv1.Plan, run *holdfastv1.Run, o *holdfastv1.PlanOutcome) {
	r := &holdfastv1.PlanRamp{Image: schema.CohortOf(run).Image, Pool: run.GetPool(), Limit: rampFirst}
	if i := plans.RampOf(p, r.GetImage(), r.GetPool()); i >= 0 {
		r = proto.CloneOf(p.GetRamps()[i])
		p.Ramps = slices.Concat(p.GetRamps()[:i], p.GetRamps()[i+1:])
	}
	addRamp(p, r)
	r.UpdatedAt = t.Now
	if o.GetFailure() == "" {
		r.Limit = min(r.GetLimit()+1, maxPlanActive)
		if len(r.GetFailed()) > 0 {
			r.Failed = slices.Clone(r.GetFailed()[1:])
		}
		return
	}
	r.Limit = max(rampFirst, r.GetLimit()/2)
	if !slices.Contains(r.GetFailed(), run.GetMachineId()) && len(r.GetFailed()) < limits.Failed {
		r.Failed = append(r.GetFailed(), run.GetMachineId()) // more do not change what follows
	}
	if n := len(r.GetFailed()); n >= brakeMachines && plans.BrakeOf(p, run.GetPool()) == nil {
		hold(t, p, run, o.GetFailure(), n)
		r.Failed = nil
	}
}

// addRamp adds a ramp as the most recently used one, and forgets the oldest one of its pool, or of
// all pools, if there are too many.
func addRamp(p *holdfastv1.Plan, r *holdfastv1.PlanRamp) {
	p.Ramps = append(slices.Clip(p.GetRamps()), r)
	n, first := 0, -1
	for i, of := range p.GetRamps() {
		if of.GetPool() == r.GetPool() {
			if n++; first < 0 {
				first = i
			}
		}
	}
	switch {
	case n > maxRamps:
	case len(p.GetRamps()) > maxAllRamps:
		first = 0
	default:
		return
	}
	p.Ramps = slices.Delete(slices.Clone(p.GetRamps()), first, first+1)
}

// restartRamp resets the ramp of a run's cohort if no run of it is active and none has ended
// for a while: the plan may install something else by now.
func restartRamp(t *core.Tx, run *holdfastv1.Run) {
	shared, _ := t.Plans.Get(run.GetPlanId())
	c := schema.CohortOf(run)
	i := plans.RampOf(shared, c.Image, c.Pool)
	if i < 0 || runningCount(t.State, c.Key()) > 0 ||
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
	limit := rampLimit(p, c)
	return plans.BrakeOf(p, c.Pool) == nil && (limit == 0 || active < limit) && v.MayBeginInFleet(c.Plan, active)
}

// MayBeginInFleet reports whether an operator's limit lets another run of a plan begin while active
// runs with the same image are running in all pools.
func (v *View) MayBeginInFleet(plan string, active int) bool {
	p, _ := v.Plan(plan)
	return p.GetMaxActive() == 0 || active < int(p.GetMaxActive())
}
