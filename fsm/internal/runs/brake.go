package runs

import (
	"slices"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/limits"
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
// machines of a pool, and on most of them, its further runs in this pool wait until an operator has
// intervened. If that happens in several pools, they wait in all pools (docs/concepts.md, the fleet
// brake). So no tenant can hold a plan for the others.
const (
	brakeWindow = 20 // recent runs of a pool that count
	// At least so many machines must fail. One bad machine that is retried often is not the
	// plan's fault.
	brakeMachines = 5
	// The machines of one pool that count at most, if failures are scattered over pools.
	brakePoolShare = 2
	// Outcomes that a plan keeps, of all pools. The oldest are forgotten first.
	maxRecent = 50 * brakeWindow
)

// noteOutcome records the end of a run in its plan, and holds the plan if too many runs
// failed the same way.
func noteOutcome(t *core.Tx, run *holdfastv1.Run) {
	p, ok := t.Plans.Get(run.GetPlanId())
	if !ok || !plans.Braked(p) || run.GetObserved() || run.GetPhase() == holdfastv1.Run_CANCELED ||
		slices.Contains([]string{ReasonRestored, ReasonRecovered}, run.GetError().GetReason()) {
		return // its end is not evidence about the plan
	}
	o := &holdfastv1.PlanOutcome{RunId: run.GetRunId(), MachineId: run.GetMachineId(), Pool: run.GetPool()}
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
	addOutcome(p, o)
	if plans.Ramped(p) {
		noteRamp(t, p, run, o)
	}
	if o.GetFailure() != "" {
		r := recordOf(p, o.GetFailure())[o.GetPool()]
		if n := len(r.machines); n >= brakeMachines && 2*n >= r.runs {
			hold(t, p, run, o.GetFailure(), n)
		}
		holdFleet(t, p, run, o.GetFailure())
	}
	t.Plans.Put(p)
}

// addOutcome adds the outcome of a run, and forgets the oldest one of its pool, or of all pools, if
// there are too many.
func addOutcome(p *holdfastv1.Plan, o *holdfastv1.PlanOutcome) {
	p.Recent = append(slices.Clip(p.GetRecent()), o)
	n := 0
	for _, r := range p.GetRecent() {
		if r.GetPool() == o.GetPool() {
			n++
		}
	}
	oldest := 0
	switch {
	case n > brakeWindow:
		oldest = slices.IndexFunc(p.GetRecent(), func(r *holdfastv1.PlanOutcome) bool { return r.GetPool() == o.GetPool() })
	case len(p.GetRecent()) <= maxRecent:
		return
	}
	p.Recent = slices.Delete(slices.Clone(p.GetRecent()), oldest, oldest+1)
}

// record is the record of a plan in one pool.
type record struct {
	runs     int
	machines map[string]bool // that failed the same way
}

// recordOf returns the record of a plan in each pool, with the machines of one failure.
func recordOf(p *holdfastv1.Plan, failure string) map[string]*record {
	pools := map[string]*record{}
	for _, r := range p.GetRecent() {
		of := pools[r.GetPool()]
		if of == nil {
			of = &record{machines: map[string]bool{}}
			pools[r.GetPool()] = of
		}
		of.runs++
		if r.GetFailure() == failure {
			of.machines[r.GetMachineId()] = true
		}
	}
	return pools
}

// hold holds a plan in the pool of a run that failed, unless it is held there.
func hold(t *core.Tx, p *holdfastv1.Plan, run *holdfastv1.Run, failure string, machines int) {
	if plans.BrakeOf(p, run.GetPool()) != nil {
		return
	}
	runs := 0
	for _, r := range p.GetRecent() {
		if r.GetPool() == run.GetPool() {
			runs++
		}
	}
	b := &holdfastv1.PlanBrake{Failure: failure, Machines: int32(machines), Runs: int32(runs),
		LastError: run.GetError().GetMessage(), Since: t.Now, Pool: run.GetPool()}
	switch {
	case run.GetPool() == "":
		p.Brake = b
	case len(p.GetHeld()) >= limits.Held: // it fails everywhere
		b.Fleet, b.Pool, p.Brake = true, "", b
	default:
		p.Held = append(slices.Clip(p.GetHeld()), b)
	}
}

// holdFleet holds a plan in all pools if it is held in several for the same failure, or if
// machines of many pools failed. Of one pool only a few machines count.
func holdFleet(t *core.Tx, p *holdfastv1.Plan, run *holdfastv1.Run, failure string) {
	if p.GetBrake().GetFleet() {
		return
	}
	held := 0
	for _, b := range append(slices.Clip(p.GetHeld()), p.GetBrake()) {
		if b != nil && b.GetFailure() == failure {
			held++
		}
	}
	counted, machines, failing, pools := 0, 0, 0, recordOf(p, failure)
	for _, r := range pools { // sums do not depend on the order
		if n := len(r.machines); n > 0 {
			failing, machines, counted = failing+1, machines+n, counted+min(n, brakePoolShare)
		}
	}
	if held < 2 && (failing < 2 || counted < brakeMachines || 2*failing < len(pools)) {
		return
	}
	p.Brake = &holdfastv1.PlanBrake{Failure: failure, Machines: int32(machines), Runs: int32(len(p.GetRecent())),
		LastError: run.GetError().GetMessage(), Since: t.Now, Fleet: true}
}

// ReleasePlan lets the runs of a plan begin again, and clears the record of recent ones: of some
// pools, or of all.
func ReleasePlan(t *core.Tx, c *internalv1.ReleasePlan) (*holdfastv1.Plan, *refusal.Error) {
	p, ok := t.Plans.Edit(c.GetPlanId())
	if !ok {
		return nil, plans.NotFound(c.GetPlanId())
	}
	if c.MaxActive != nil && (c.GetMaxActive() < 0 || c.GetMaxActive() > maxPlanActive) {
		return nil, refusal.InvalidField("max_active", "%d is not 0 to %d", c.GetMaxActive(), maxPlanActive)
	}
	if len(c.GetPools()) > 0 {
		return p, releasePools(t, p, c)
	}
	if p.GetBrake() != nil || len(p.GetHeld()) > 0 || len(p.GetRecent()) > 0 || len(p.GetRamps()) > 0 ||
		c.MaxActive != nil {
		p.Brake, p.Held, p.Recent, p.Ramps = nil, nil, nil, nil
		if c.MaxActive != nil {
			p.MaxActive = c.GetMaxActive()
		}
		t.Plans.Put(p)
	}
	return p, nil
}

// releasePools releases a plan in some pools. The limit and the brake of the fleet are not theirs.
func releasePools(t *core.Tx, p *holdfastv1.Plan, c *internalv1.ReleasePlan) *refusal.Error {
	switch {
	case c.MaxActive != nil:
		return refusal.New(refusal.PermissionDenied, refusal.ReasonOutOfScope,
			"max_active limits plan %q in all pools: an operator of all pools sets it", p.GetPlanId())
	case p.GetBrake().GetFleet():
		return refusal.New(refusal.PermissionDenied, refusal.ReasonOutOfScope,
			"plan %q is held in all pools, because its runs failed in several: an operator of all pools releases it",
			p.GetPlanId())
	}
	in := func(pool string) bool { return slices.Contains(c.GetPools(), pool) }
	p.Held = slices.DeleteFunc(p.GetHeld(), func(b *holdfastv1.PlanBrake) bool { return in(b.GetPool()) })
	p.Recent = slices.DeleteFunc(p.GetRecent(), func(r *holdfastv1.PlanOutcome) bool { return in(r.GetPool()) })
	p.Ramps = slices.DeleteFunc(p.GetRamps(), func(r *holdfastv1.PlanRamp) bool { return in(r.GetPool()) })
	t.Plans.Put(p)
	return nil
}
