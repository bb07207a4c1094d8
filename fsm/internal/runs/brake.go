package runs

import (
	"slices"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/plans"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/fsm/internal/shallow"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// The reasons of runs that ended because of an operator's intervention in the cluster.
const (
	ReasonRestored  = "Restored"  // a restore has ended them
	ReasonRecovered = "Recovered" // their cluster was recovered
)

// A wrong plan fails on every machine. If recent runs of a plan fail the same way on several
// machines, and on most of them, its further runs wait until an operator has intervened
// (docs/concepts.md, the fleet brake).
const (
	brakeWindow = 20 // recent runs that count
	// At least so many machines must fail. One bad machine that is retried often is not the
	// plan's fault.
	brakeMachines = 5
)

// noteOutcome records the end of a run in its plan, and holds the plan if too many runs
// failed the same way.
func noteOutcome(t *core.Tx, run *holdfastv1.Run) {
	p, ok := t.Plans.Get(run.GetPlanId())
	if !ok || !plans.Braked(p) || run.GetObserved() || run.GetPhase() == holdfastv1.Run_CANCELED ||
		slices.Contains([]string{ReasonRestored, ReasonRecovered}, run.GetError().GetReason()) {
		return // its end is not evidence about the plan
	}
	o := &holdfastv1.PlanOutcome{RunId: run.GetRunId(), MachineId: run.GetMachineId()}
	if f := run.GetError(); f != nil {
		o.Failure = f.GetReason()
		if f.GetErrorClass() != "" {
			o.Failure += " (" + f.GetErrorClass() + ")"
		}
		if f.GetStep() != "" {
			o.Failure += " at step " + f.GetStep()
		}
	}
	p = shallow.Plan(p)
	p.Recent = append(slices.Clip(p.GetRecent()), o)
	if n := len(p.GetRecent()) - brakeWindow; n > 0 {
		p.Recent = p.GetRecent()[n:]
	}
	if plans.Ramped(p) {
		noteRamp(t, p, run, o)
	}
	if p.GetBrake() == nil && o.GetFailure() != "" {
		machines := map[string]bool{}
		for _, r := range p.GetRecent() {
			if r.GetFailure() == o.GetFailure() {
				machines[r.GetMachineId()] = true
			}
		}
		if n := len(machines); n >= brakeMachines && 2*n >= len(p.GetRecent()) {
			p.Brake = &holdfastv1.PlanBrake{
				Failure:   o.GetFailure(),
				Machines:  int32(n),
				Runs:      int32(len(p.GetRecent())),
				LastError: run.GetError().GetMessage(),
				Since:     t.Now,
			}
		}
	}
	t.Plans.Put(p)
}

// ReleasePlan lets the runs of a plan begin again, and clears the record of recent ones.
func ReleasePlan(t *core.Tx, c *internalv1.ReleasePlan) (*holdfastv1.Plan, *refusal.Error) {
	p, ok := t.Plans.Edit(c.GetPlanId())
	if !ok {
		return nil, plans.NotFound(c.GetPlanId())
	}
	if c.MaxActive != nil && (c.GetMaxActive() < 0 || c.GetMaxActive() > maxPlanActive) {
		return nil, refusal.InvalidField("max_active", "%d is not 0 to %d", c.GetMaxActive(), maxPlanActive)
	}
	if p.GetBrake() != nil || len(p.GetRecent()) > 0 || len(p.GetRamps()) > 0 || c.MaxActive != nil {
		p.Brake, p.Recent, p.Ramps = nil, nil, nil
		if c.MaxActive != nil {
			p.MaxActive = c.GetMaxActive()
		}
		t.Plans.Put(p)
	}
	return p, nil
}
