package ui

import (
	"net/url"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/internal/display"
)

// actBody is a confirmation page: the action, its consequences, and for actions that cannot
// be undone, the text to type.
type actBody struct {
	Kind    string // run, phase, approve, cancel, release
	Machine *holdfastv1.Machine
	Run     *holdfastv1.Run
	Plan    *holdfastv1.Plan
	Happens []string // the consequences, in words
	Grave   bool     // the action cannot be undone
	Typed   string   // the text to type as confirmation, or ""
	Submit  string   // label of the button, or "" if the form is incomplete
	Back    string

	Form url.Values // the submitted values

	Plans   []*holdfastv1.Plan // run: the plans to choose from
	Steps   []display.PlanStep
	Phases  []holdfastv1.MachineStatus_Phase // phase: the phases to choose from
	Request string                           // run: the request id, so that a form submitted twice starts one run
}

// Value returns the submitted value of a field.
func (b actBody) Value(name string) string { return b.Form.Get(name) }

// ask shows the confirmation page, with the error of the last submission if there was one.
func (v *visit) ask(title, nav string, b actBody, wrong error) error {
	return v.page("act", title, nav, b, wrong)
}

// form parses the submitted form.
func (v *visit) form() (url.Values, error) {
	if err := v.r.ParseForm(); err != nil {
		return nil, status.Error(codes.InvalidArgument, "the form is malformed")
	}
	for _, all := range v.r.PostForm {
		for _, s := range all {
			if strings.ToValidUTF8(s, "") != s {
				return nil, status.Error(codes.InvalidArgument, "the form is not UTF-8")
			}
		}
	}
	return v.r.PostForm, nil
}

// typed checks that the confirmation text was typed, if the action requires one.
func (b actBody) typed() error {
	if b.Typed != "" && strings.TrimSpace(b.Form.Get("typed")) != b.Typed {
		return status.Errorf(codes.InvalidArgument, "nothing was done: type %s to confirm", b.Typed)
	}
	return nil
}

func (v *visit) theMachine() (*holdfastv1.Machine, error) {
	return v.read.machines.GetMachine(v.ctx, &holdfastv1.GetMachineRequest{MachineId: v.r.PathValue("id")})
}

// cancelQuestion returns the confirmation page for canceling a run.
func (v *visit) cancelQuestion(form url.Values) (actBody, error) {
	b := actBody{Kind: "cancel", Form: form, Submit: "Cancel the run"}
	var err error
	if b.Run, err = v.read.runs.GetRun(v.ctx, &holdfastv1.GetRunRequest{RunId: v.r.PathValue("id")}); err != nil {
		return b, err
	}
	b.Back = display.RunPath(b.Run.GetRunId())
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
	b.Back = display.PlanPath(b.Plan.GetPlanId())
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
