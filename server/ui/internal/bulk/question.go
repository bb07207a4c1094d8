package bulk

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/internal/display"
	"github.com/holdfast-metal/holdfast/server/ui/internal/runform"
)

// Plans reads plans.
type Plans interface {
	GetPlan(context.Context, *holdfastv1.GetPlanRequest, ...grpc.CallOption) (*holdfastv1.Plan, error)
}

// Row is a selected machine.
type Row struct {
	Machine *holdfastv1.Machine
	Known   bool
	Effect  string // the effect of the action on it
	Refused bool   // the action is expected to be refused
}

// Question is a confirmation page: the machines, the effect on each, and the consequences.
type Question struct {
	Kind      Kind
	Form      url.Values // the submitted values
	Selection Selection
	Rows      []Row
	Plan      *holdfastv1.Plan // of runs
	Steps     []display.PlanStep
	Phases    []holdfastv1.MachineStatus_Phase // to choose from
	Happens   []string                         // the consequences, in words
	Grave     bool                             // it destroys or interrupts
	Typed     string                           // the text to type as confirmation, or ""
	Submit    string                           // label of the button, or "" if the form is incomplete
	Request   string                           // the request id of the runs: a form submitted twice starts each run once

	phase      holdfastv1.MachineStatus_Phase
	key, value string // of a label
	params     map[string]string

	ParamFields []runform.Field // of runs
	Destroys    bool            // the runs destroy data
	unannounced bool            // and the page of the form has not stated it
}

// ParamLines returns the parameters of the runs, one in each line.
func (q *Question) ParamLines() string { return runform.Lines(q.params) }

// Value returns the submitted value of a field.
func (q *Question) Value(name string) string { return q.Form.Get(name) }

// Fields returns the names of the fields that define the action.
func (q *Question) Fields() []string {
	switch q.Kind.Key {
	case StartPlan:
		return []string{"plan"}
	case SetPhase:
		return []string{"phase"}
	case SetLabel:
		return []string{"key", "value"}
	case RemoveLabel:
		return []string{"key"}
	}
	return nil
}

// Ask reads the selected machines and describes the action. If the question has rows, its error
// belongs to the form: the page can be shown with it.
func Ask(ctx context.Context, machines Machines, plans Plans, kind Kind, form url.Values) (*Question, error) {
	q := &Question{Kind: kind, Form: form, Selection: selectionOf(form), Phases: Phases()}
	selected, err := q.Selection.read(ctx, machines)
	if err != nil {
		return q, err
	}
	for _, m := range selected {
		q.Rows = append(q.Rows, Row{Machine: m, Known: m.GetStatus() != nil})
	}
	switch kind.Key {
	case SetPhase:
		q.askPhase()
	case SetLabel, RemoveLabel:
		err = q.askLabel()
	default:
		err = q.askRuns(ctx, plans)
	}
	for i := range q.Rows {
		if !q.Rows[i].Known {
			q.Rows[i].Effect, q.Rows[i].Refused = "not found", true
		}
	}
	if q.Submit != "" {
		q.sum()
	}
	return q, err
}

// sum adds the consequences that depend on the states of the machines.
func (q *Question) sum() {
	serving, refused := 0, 0
	for _, r := range q.Rows {
		if s := r.Machine.GetStatus(); s.GetEffectiveState() == holdfastv1.EffectiveState_IN_SERVICE ||
			s.GetPhase() == holdfastv1.MachineStatus_IN_SERVICE {
			serving++
		}
		if r.Refused {
			refused++
		}
	}
	if serving > 0 && q.Grave {
		q.Happens = append(q.Happens, fmt.Sprintf("%s in service.", isAre(serving)))
	}
	if refused > 0 {
		q.Happens = append(q.Happens, fmt.Sprintf("%s expected to be refused: see the column Effect.", isAre(refused)))
	}
	if q.Grave {
		q.Typed = fmt.Sprint(len(q.Rows))
	}
}

func isAre(n int) string {
	if n == 1 {
		return "1 machine is"
	}
	return describe.Number(n, "machine") + " are"
}

// Count returns the number of selected machines in words.
func (q *Question) Count() string {
	return describe.Number(len(q.Rows), "machine")
}

// Confirmed checks that the number of machines was typed, if the action requires it.
func (q *Question) Confirmed() error {
	switch {
	case q.Submit == "":
		return status.Error(codes.InvalidArgument, "nothing was done: the form is incomplete")
	case q.unannounced:
		return status.Error(codes.FailedPrecondition,
			"nothing was done: with these parameters the runs destroy data: confirm again")
	case q.Typed != "" && strings.TrimSpace(q.Form.Get("typed")) != q.Typed:
		return status.Errorf(codes.InvalidArgument, "nothing was done: type %s to confirm", q.Typed)
	}
	if q.Plan != nil {
		if err := fsm.CheckParams(q.Plan, q.params); err != nil {
			return status.Error(codes.InvalidArgument, "nothing was done: "+err.Error())
		}
	}
	return nil
}

// request returns the request id of the form, or a new one.
func (q *Question) request() string {
	if id := q.Form.Get("request"); id != "" {
		return id
	}
	return "ui-" + uuid.NewString()
}
