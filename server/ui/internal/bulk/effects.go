package bulk

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/internal/display"
	"github.com/holdfast-metal/holdfast/server/ui/internal/runform"
)

// askRuns describes the runs of a plan, if one is chosen.
func (q *Question) askRuns(ctx context.Context, plans Plans) error {
	id := q.Kind.plan
	if id == "" {
		id = q.Value("plan")
	}
	if id == "" {
		return nil
	}
	var err error
	if q.Plan, err = plans.GetPlan(ctx, &holdfastv1.GetPlanRequest{PlanId: id}); err != nil {
		q.Plan = nil
		return err
	}
	if q.params, err = runform.Values(q.Plan, q.Form); err != nil {
		return err
	}
	q.Steps, q.Request, q.Submit = display.PlanSteps(q.Plan, q.params), q.request(), q.Kind.Button
	q.ParamFields = runform.Fields(q.Plan, q.Form)
	if q.Kind.Key == StartPlan {
		q.Submit = "Start the runs"
	}
	effect := fsm.EffectOf(q.Plan, q.params)
	q.Destroys, q.Grave = effect.Destroys, effect.Grave || effect.Interrupts
	q.Happens = append(q.Happens, fmt.Sprintf(
		"%s: a run of %s starts on each. Runs that exceed the limit of active runs wait.", q.Count(), id))
	switch {
	case effect.Destroys:
		q.Happens = append(q.Happens, "Each run "+effect.Text+".", "All data on these machines will be lost.")
	case effect.Grave:
		q.Happens = append(q.Happens, "Each run "+effect.Text+".")
	case effect.Interrupts:
		q.Happens = append(q.Happens, "Workloads on these machines are interrupted.")
	}
	if q.Plan.GetBrake() != nil {
		q.Happens = append(q.Happens, "This plan is held by its brake: the runs wait until the brake is released.")
	}
	for i := range q.Rows {
		q.Rows[i].Effect, q.Rows[i].Refused = runEffect(q.Kind.Key, id, q.Rows[i].Machine.GetStatus())
	}
	q.unannounced = runform.Unannounced(effect, q.Form)
	return nil
}

// runEffect returns the effect of starting a run on a machine.
func runEffect(kind, plan string, s *holdfastv1.MachineStatus) (effect string, refused bool) {
	power := s.GetPower()
	switch {
	case s.GetPhase() == holdfastv1.MachineStatus_RETIRED:
		return "refused: the machine is retired", true
	case s.GetActiveRunId() != "":
		return "refused while " + s.GetActiveRunId() + " is active", true
	case kind == PowerOn && power == holdfastv1.PowerState_ON, kind == PowerOff && power == holdfastv1.PowerState_OFF:
		return plan + "; the power is " + display.Label(power) + " already", false
	}
	return plan, false
}

// askPhase describes the change of the phase, if one is chosen.
func (q *Question) askPhase() {
	to := holdfastv1.MachineStatus_Phase(holdfastv1.MachineStatus_Phase_value[q.Value("phase")])
	if !slices.Contains(q.Phases, to) {
		return
	}
	q.phase, q.Submit = to, "Set phase to "+to.String()
	q.Happens = append(q.Happens, fmt.Sprintf("The phase of %s becomes %s. The hardware is not touched.", q.Count(), to))
	switch to {
	case holdfastv1.MachineStatus_RETIRED:
		q.Grave = true
		q.Happens = append(q.Happens, "They leave the inventory permanently. This cannot be undone, and no further runs "+
			"are allowed.")
	case holdfastv1.MachineStatus_RMA:
		q.Grave = true
		q.Happens = append(q.Happens, "They stay out of service for return or replacement until their phase is set again.")
	case holdfastv1.MachineStatus_READY, holdfastv1.MachineStatus_IN_SERVICE:
		q.Happens = append(q.Happens, "The condition NeedsIntervention is cleared if it is set.")
	}
	for i := range q.Rows {
		r, s := &q.Rows[i], q.Rows[i].Machine.GetStatus()
		switch from := s.GetPhase(); {
		case s.GetActiveRunId() != "":
			r.Effect, r.Refused = "refused while "+s.GetActiveRunId()+" is active", true
		case from == holdfastv1.MachineStatus_RETIRED && to != from:
			r.Effect, r.Refused = "refused: the machine is retired", true
		case from == to:
			r.Effect = to.String() + ", as before"
		default:
			r.Effect = from.String() + " → " + to.String()
		}
	}
}

// askLabel describes the change of a label, if its key is given.
func (q *Question) askLabel() error {
	q.key, q.value = q.Value("key"), q.Value("value")
	remove := q.Kind.Key == RemoveLabel
	if q.key == "" {
		if q.Form.Has("key") {
			return status.Error(codes.InvalidArgument, "label: the key is missing")
		}
		return nil
	}
	q.Submit = "Set label " + q.key
	if remove {
		q.Submit = "Remove label " + q.key
	}
	changed := 0
	for i := range q.Rows {
		r := &q.Rows[i]
		old, has := r.Machine.GetLabels()[q.key]
		switch {
		case remove && !has:
			r.Effect = "no label " + q.key
		case remove:
			r.Effect = fmt.Sprintf("%s=%s is removed", q.key, old)
			changed++
		case has && old == q.value:
			r.Effect = fmt.Sprintf("%s=%s, as before", q.key, q.value)
		case has:
			r.Effect = fmt.Sprintf("%s: %s → %s", q.key, old, q.value)
			changed++
		default:
			r.Effect = fmt.Sprintf("%s=%s is added", q.key, q.value)
			changed++
		}
	}
	q.Happens = append(q.Happens, fmt.Sprintf("The label %s changes on %d of %s.", q.key, changed, q.Count()))
	return nil
}

// Keys returns the label keys of the selected machines, to choose from.
func (q *Question) Keys() []string {
	all := map[string]bool{}
	for _, r := range q.Rows {
		for k := range r.Machine.GetLabels() {
			all[k] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}
