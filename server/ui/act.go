package ui

import (
	"net/url"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
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
	Steps   []planStep
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
