package ui

import (
	"net/url"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// actBody is what is asked before something is done: what it is, what will happen, and the word to
// type where that cannot be undone.
type actBody struct {
	Kind    string // run, phase, approve, cancel, release
	Machine *holdfastv1.Machine
	Run     *holdfastv1.Run
	Plan    *holdfastv1.Plan
	Happens []string // what will happen
	Grave   bool     // it cannot be undone
	Typed   string   // what has to be typed first; empty: nothing
	Submit  string   // on the button; empty: nothing can be sent yet
	Back    string

	Form url.Values // what was filled in

	Plans   []*holdfastv1.Plan // run: those to choose from
	Steps   []planStep
	Phases  []holdfastv1.MachineStatus_Phase // phase: those to choose from
	Request string                           // run: its request id: the form sent twice is one run
}

// Value is what a field was filled in with.
func (b actBody) Value(name string) string { return b.Form.Get(name) }

// ask shows the question, with what went wrong when it was answered before.
func (v *visit) ask(title, nav string, b actBody, wrong error) error {
	return v.page("act", title, nav, b, wrong)
}

// form reads what was sent.
func (v *visit) form() (url.Values, error) {
	if err := v.r.ParseForm(); err != nil {
		return nil, status.Error(codes.InvalidArgument, "read the form: it is not one")
	}
	for _, all := range v.r.PostForm {
		for _, s := range all {
			if strings.ToValidUTF8(s, "") != s {
				return nil, status.Error(codes.InvalidArgument, "read the form: it is not UTF-8")
			}
		}
	}
	return v.r.PostForm, nil
}

// typed reports whether the word was typed that what cannot be undone takes.
func (b actBody) typed() error {
	if b.Typed != "" && strings.TrimSpace(b.Form.Get("typed")) != b.Typed {
		return status.Errorf(codes.InvalidArgument, "nothing was done: type %s to confirm", b.Typed)
	}
	return nil
}

func (v *visit) theMachine() (*holdfastv1.Machine, error) {
	return v.read.machines.GetMachine(v.ctx, &holdfastv1.GetMachineRequest{MachineId: v.r.PathValue("id")})
}

func machinePath(id string) string { return "/ui/machines/" + url.PathEscape(id) }
func runPath(id string) string     { return "/ui/runs/" + url.PathEscape(id) }
func planPath(id string) string    { return (&url.URL{Path: "/ui/plans/" + id}).EscapedPath() }
