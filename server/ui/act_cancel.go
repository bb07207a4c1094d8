package ui

import (
	"net/url"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// cancelQuestion is what is asked before a run is canceled.
func (v *visit) cancelQuestion(form url.Values) (actBody, error) {
	b := actBody{Kind: "cancel", Form: form, Submit: "Cancel the run"}
	var err error
	if b.Run, err = v.read.runs.GetRun(v.ctx, &holdfastv1.GetRunRequest{RunId: v.r.PathValue("id")}); err != nil {
		return b, err
	}
	b.Back = runPath(b.Run.GetRunId())
	b.Happens = []string{"The run ends when its current step has stopped. What its steps have done stays done: nothing is rolled back."}
	if s := b.Run.GetCurrentStep(); s != "" {
		b.Happens = append(b.Happens, b.Run.GetMachineId()+" is at step "+s+" and may be left half-way: it then goes to maintenance.")
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
	if _, err := v.write.runs.CancelRun(v.ctx, &holdfastv1.CancelRunRequest{RunId: b.Run.GetRunId(), Reason: form.Get("comment")}); err != nil {
		return v.ask("Cancel "+b.Run.GetRunId(), "runs", b, err)
	}
	return v.done(b.Back)
}

// releaseQuestion is what is asked before the brake of a plan is released.
func (v *visit) releaseQuestion() (actBody, error) {
	b := actBody{Kind: "release", Submit: "Release the brake"}
	var err error
	if b.Plan, err = v.read.plans.GetPlan(v.ctx, &holdfastv1.GetPlanRequest{PlanId: v.r.PathValue("id")}); err != nil {
		return b, err
	}
	b.Back = planPath(b.Plan.GetPlanId())
	b.Happens = []string{"Runs that wait for it begin. What has failed before no longer counts."}
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
	if _, err := v.write.plans.ReleasePlan(v.ctx, &holdfastv1.ReleasePlanRequest{PlanId: b.Plan.GetPlanId()}); err != nil {
		return v.ask("Release "+b.Plan.GetPlanId(), "plans", b, err)
	}
	return v.done(b.Back)
}
