package ui

import (
	"net/url"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/internal/filter"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/internal/display"
	"github.com/holdfast-metal/holdfast/server/ui/internal/runform"
)

// actBody is a confirmation page: the action, its consequences, and for actions that cannot
// be undone, the text to type.
type actBody struct {
	Kind    string // run, phase, approve, cancel, release, cancel-wave, retry-wave, end-session
	Subject string // of the title: a machine, a run, a plan or a wave
	Machine *holdfastv1.Machine
	Run     *holdfastv1.Run
	Plan    *holdfastv1.Plan
	Happens []string // the consequences, in words
	Grave   bool     // the action cannot be undone
	Typed   string   // the text to type as confirmation, or ""
	Submit  string   // label of the button, or "" if the form is incomplete
	Back    string

	Form url.Values // the submitted values

	Plans  []*holdfastv1.Plan // run: the plans to choose from
	Steps  []display.PlanStep
	Fields []runform.Field   // run: the parameters
	params map[string]string // run
	// Destroys is whether the run destroys data, with the parameters of the form.
	Destroys bool
	Phases   []holdfastv1.MachineStatus_Phase // phase: the phases to choose from
	Request  string                           // run, retry-wave: the request id, so that a form sent twice starts one
}

// Value returns the submitted value of a field.
func (b actBody) Value(name string) string { return b.Form.Get(name) }

// action is an action with a confirmation page.
type action struct {
	title, nav string // title is followed by the subject
	// question returns the confirmation page for a form. If it returns no subject, its error is
	// shown on a page of its own.
	question func(v *visit, form url.Values) (actBody, error)
	// do performs the action and returns the path of the next page.
	do func(v *visit, b actBody) (next string, err error)
}

// ask shows the confirmation page.
func (a action) ask(v *visit) error {
	b, err := a.question(v, v.r.URL.Query())
	return a.show(v, b, err)
}

// submit performs the action, or shows the confirmation page again with the error.
func (a action) submit(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	b, err := a.question(v, form)
	if err == nil {
		err = b.typed()
	}
	next := ""
	if err == nil {
		next, err = a.do(v, b)
	}
	if err != nil {
		return a.show(v, b, err)
	}
	return v.done(next)
}

func (a action) show(v *visit, b actBody, err error) error {
	if b.Subject == "" {
		return err
	}
	return v.page("act", a.title+" "+b.Subject, a.nav, b, err)
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

// cancelQuestion returns the confirmation page for canceling a run.
func cancelQuestion(v *visit, form url.Values) (actBody, error) {
	b := actBody{Kind: "cancel", Form: form, Submit: "Cancel the run"}
	var err error
	if b.Run, err = v.read.runs.GetRun(v.ctx, &holdfastv1.GetRunRequest{RunId: v.r.PathValue("id")}); err != nil {
		return b, err
	}
	b.Subject, b.Back = b.Run.GetRunId(), display.RunPath(b.Run.GetRunId())
	b.Happens = []string{"The run ends once its current step has stopped. Completed steps are not rolled back."}
	if s := b.Run.GetCurrentStep(); s != "" {
		b.Happens = append(b.Happens, b.Run.GetMachineId()+" is at step "+s+
			" and may be left in an intermediate state. It then goes to maintenance.")
	}
	return b, nil
}

func cancelRun(v *visit, b actBody) (string, error) {
	req := &holdfastv1.CancelRunRequest{RunId: b.Run.GetRunId(), Reason: b.Value("comment")}
	_, err := v.write.runs.CancelRun(v.ctx, req)
	return b.Back, err
}

// releaseQuestion returns the confirmation page for releasing a plan's brake.
func releaseQuestion(v *visit, form url.Values) (actBody, error) {
	b := actBody{Kind: "release", Form: form, Submit: "Release the brake"}
	var err error
	if b.Plan, err = v.read.plans.GetPlan(v.ctx, &holdfastv1.GetPlanRequest{PlanId: v.r.PathValue("id")}); err != nil {
		return b, err
	}
	b.Subject, b.Back = b.Plan.GetPlanId(), display.PlanPath(b.Plan.GetPlanId())
	b.Happens = []string{"Runs that wait for this plan start. Earlier failures no longer count."}
	return b, nil
}

func release(v *visit, b actBody) (string, error) {
	_, err := v.write.plans.ReleasePlan(v.ctx, &holdfastv1.ReleasePlanRequest{PlanId: b.Plan.GetPlanId()})
	return b.Back, err
}

// endSessionQuestion returns the confirmation page for ending the session of a person.
func endSessionQuestion(v *visit, form url.Values) (actBody, error) {
	id := v.r.PathValue("id")
	b := actBody{Kind: "end-session", Form: form, Back: "/ui/sessions"}
	none := status.Errorf(codes.NotFound, "you have no session %q, or it has expired", id)
	if strings.ContainsAny(id, `"\*`) { // no id has them, and a filter would read them
		return b, none
	}
	found, err := holdfastv1.NewSessionServiceClient(v.read.conn).ListSessions(v.ctx,
		&holdfastv1.ListSessionsRequest{Filter: filter.Equals("session_id", id), PageSize: 1})
	if err != nil {
		return b, err
	}
	if len(found.GetSessions()) == 0 {
		return b, none
	}
	s := found.GetSessions()[0]
	b.Subject = id
	if s.GetState() != "active" {
		return b, status.Errorf(codes.FailedPrecondition, "session %s of %s is not active: it has %s", id, s.GetPrincipal(),
			s.GetState())
	}
	b.Submit = "End the session"
	b.Happens = []string{
		"The session of " + s.GetPrincipal() + " from " + s.GetSource() + " ends: no peer accepts its cookie or access " +
			"tokens any more, and its open pages and streams end.",
		s.GetPrincipal() + " can sign in again, unless the identity provider refuses it.",
	}
	if s.GetTokenId() != "" {
		b.Happens = append(b.Happens, "Token "+s.GetTokenId()+" stays valid for programs: revoke it too if needed.")
	}
	if s.GetPrincipal() == v.who.GetPrincipal() {
		b.Happens = append(b.Happens, "If it is the session of this browser, you have to sign in again.")
	}
	return b, nil
}

func endSession(v *visit, b actBody) (string, error) {
	_, err := holdfastv1.NewSessionServiceClient(v.write.conn).EndSession(v.ctx,
		&holdfastv1.EndSessionRequest{SessionId: b.Subject})
	return b.Back, err
}
