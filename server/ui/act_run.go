package ui

import (
	"net/url"
	"slices"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/internal/display"
	"github.com/holdfast-metal/holdfast/server/ui/internal/runform"
)

// runQuestion returns the confirmation page for a run: the choice of a plan, then the
// effects of its steps.
func runQuestion(v *visit, form url.Values) (actBody, error) {
	b := actBody{Kind: "run", Form: form, Request: form.Get("request")}
	var err error
	if b.Machine, err = v.theMachine(); err != nil {
		return b, err
	}
	id := b.Machine.GetMachineId()
	b.Subject, b.Back = id, display.MachinePath(id)
	if b.Plans, err = v.allPlans(); err != nil {
		return b, err
	}
	runform.Sort(b.Plans)
	i := slices.IndexFunc(b.Plans, func(p *holdfastv1.Plan) bool { return p.GetPlanId() == form.Get("plan") })
	if i < 0 {
		return b, nil
	}
	if b.params, err = runform.Values(b.Plans[i], form); err != nil {
		return b, err
	}
	b.Plan, b.Steps, b.Submit = b.Plans[i], display.PlanSteps(b.Plans[i], b.params), "Start the run"
	b.Fields = runform.Fields(b.Plan, form)
	if b.Request == "" {
		b.Request = "ui-" + uuid.NewString()
	}
	effect := fsm.EffectOf(b.Plan, b.params)
	s := b.Machine.GetStatus()
	serving := effect.Interrupts && (s.GetPhase() == holdfastv1.MachineStatus_IN_SERVICE ||
		s.GetEffectiveState() == holdfastv1.EffectiveState_IN_SERVICE)
	b.Grave, b.Destroys = effect.Grave || serving, effect.Destroys
	if b.Grave {
		b.Typed = id
	}
	switch {
	case effect.Destroys:
		b.Happens = append(b.Happens, effect.Text+".", "All data on "+id+" will be lost.")
	case effect.Grave:
		b.Happens = append(b.Happens, effect.Text+".")
	case effect.Interrupts:
		b.Happens = append(b.Happens, "Workloads on "+id+" are interrupted.")
	}
	if serving {
		b.Happens = append(b.Happens, id+" is in service.")
	}
	if runform.Unannounced(effect, form) {
		err = status.Error(codes.FailedPrecondition,
			"nothing was done: with these parameters the run "+effect.Text+": confirm again")
	}
	if run := s.GetActiveRunId(); run != "" {
		b.Happens = append(b.Happens,
			id+" has the active run "+run+": another run is refused until that run has ended.")
	}
	if b.Plan.GetBrake() != nil {
		b.Happens = append(b.Happens, "This plan is held by its brake: the run waits until the brake is released.")
	}
	return b, err
}

func startRun(v *visit, b actBody) (string, error) {
	if b.Plan == nil {
		return "", status.Errorf(codes.InvalidArgument, "there is no plan %q: choose one", b.Value("plan"))
	}
	run, err := v.write.runs.StartRun(v.ctx, &holdfastv1.StartRunRequest{
		RequestId: b.Request,
		MachineId: b.Machine.GetMachineId(),
		Type:      runform.TypeOf(b.Plan.GetPlanId()),
		PlanId:    b.Plan.GetPlanId(),
		Params:    b.params,
	})
	return display.RunPath(run.GetRunId()), err
}
