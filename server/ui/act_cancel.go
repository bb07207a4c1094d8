package ui

import (
	"net/url"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// cancelQuestion returns the confirmation page for canceling a run.
func (v *visit) cancelQuestion(form url.Values) (actBody, error) {
	b := actBody{Kind: "cancel", Form: form, Submit: "Cancel the run"}
	var err error
	if b.Run, err = v.read.runs.GetRun(v.ctx, &holdfastv1.GetRunRequest{RunId: v.r.PathValue("id")}); err != nil {
		return b, err
	}
	b.Back = runPath(b.Run.GetRunId())
	b.Happens = []string{"The run ends once its current step has stopped. Completed steps are not rolled back."}
	if s := b.Run.GetCurrentStep(); s != "" {
		b.Happens = append(b.Happens, b.Run.GetMachineId()+" is at step "+s+
			" and may be left in an intermediate state. It then goes to maintenance.")
	}
	return b, nil
}

func (d *dashboard) askCancel(v *visit) error {
	b, err := v.cancelQuestion(v.r.URL.Query())
	if err != nil {
		return err
	}
	return v.ask("Cancel "+b.Run.GetRunId(), "runs", b, nil)
}

func (d *dashboard) cancelRun(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	b, err := v.cancelQuestion(form)
	if err != nil {
		return err
	}
	req := &holdfastv1.CancelRunRequest{RunId: b.Run.GetRunId(), Reason: form.Get("comment")}
	if _, err := v.write.runs.CancelRun(v.ctx, req); err != nil {
		return v.ask("Cancel "+b.Run.GetRunId(), "runs", b, err)
	}
	return v.done(b.Back)
}

// releaseQuestion returns the confirmation page for releasing a plan's brake.
func (v *visit) releaseQuestion() (actBody, error) {
	b := actBody{Kind: "release", Submit: "Release the brake"}
	var err error
	if b.Plan, err = v.read.plans.GetPlan(v.ctx, &holdfastv1.GetPlanRequest{PlanId: v.r.PathValue("id")}); err != nil {
		return b, err
	}
	b.Back = planPath(b.Plan.GetPlanId())
	b.Happens = []string{"Runs that wait for this plan start. Earlier failures no longer count."}
	return b, nil
}

func (d *dashboard) askRelease(v *visit) error {
	b, err := v.releaseQuestion()
	if err != nil {
		return err
	}
	return v.ask("Release "+b.Plan.GetPlanId(), "plans", b, nil)
}

func (d *dashboard) release(v *visit) error {
	b, err := v.releaseQuestion()
	if err != nil {
		return err
	}
	req := &holdfastv1.ReleasePlanRequest{PlanId: b.Plan.GetPlanId()}
	if _, err := v.write.plans.ReleasePlan(v.ctx, req); err != nil {
		return v.ask("Release "+b.Plan.GetPlanId(), "plans", b, err)
	}
	return v.done(b.Back)
}
