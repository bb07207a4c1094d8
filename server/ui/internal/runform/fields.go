package runform

import (
	"cmp"
	"net/url"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// prefix is that of the names of fields with parameters. The rest is the parameter's name.
const prefix = "param."

// shown is the name of a hidden field: whether the page stated that the run destroys data.
const shown = "destroys"

// Field is a field of a form for a parameter of a plan.
type Field struct {
	ID, Label, Help, Value, Placeholder string
	Kind                                string // checkbox, select, number, area or text
	Choices                             []string
	Min, Max                            string // of a number
	Required                            bool
}

// Fields returns the fields of a plan's parameters, with the values of a form.
func Fields(plan *holdfastv1.Plan, form url.Values) []Field {
	set, _ := Values(plan, form) // its error is shown when the form is sent
	var fields []Field
	for _, p := range fsm.PlanParams(plan) {
		f := Field{ID: prefix + p.GetName(), Label: p.GetName(), Help: p.GetDescription(), Kind: "text",
			Placeholder: p.GetDefault(), Required: p.GetRequired()}
		f.Value = cmp.Or(set[p.GetName()], form.Get(f.ID), writtenDefault(plan, p.GetName()))
		switch p.GetType() {
		case holdfastv1.Param_BOOL:
			f.Kind = "checkbox"
		case holdfastv1.Param_ENUM:
			f.Kind, f.Choices = "select", p.GetChoices()
		case holdfastv1.Param_INTEGER:
			f.Kind, f.Min, f.Max = "number", bound(p.Min), bound(p.Max)
		}
		if p.GetMultiline() {
			f.Kind = "area"
		}
		fields = append(fields, f)
	}
	return fields
}

// writtenDefault returns the default that a plan itself declares for a parameter.
func writtenDefault(plan *holdfastv1.Plan, name string) string {
	for _, p := range plan.GetParams() {
		if p.GetName() == name {
			return p.GetDefault()
		}
	}
	return ""
}

func bound(n *int32) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(int(*n))
}

// Values returns the parameters of a form: those in lines of the field params, such as a link has
// them, and those of the fields, which have precedence. An empty field sets nothing, and a box that
// is not checked sets false where the plan's default is true.
func Values(plan *holdfastv1.Plan, form url.Values) (map[string]string, error) {
	params, err := Params(form.Get("params"))
	if err != nil {
		return nil, err
	}
	for _, p := range fsm.PlanParams(plan) {
		all := form[prefix+p.GetName()]
		switch {
		case len(all) > 1:
			return nil, status.Errorf(codes.InvalidArgument, "%s: is set twice", p.GetName())
		case len(all) == 1 && all[0] != "":
			params[p.GetName()] = strings.ReplaceAll(all[0], "\r\n", "\n")
		case form.Has(shown) && p.GetType() == holdfastv1.Param_BOOL && writtenDefault(plan, p.GetName()) == "true":
			params[p.GetName()] = "false"
		}
	}
	return params, nil
}

// Unannounced reports whether a run destroys data with the parameters of a form, and the page with
// the form has stated that it does not: its reader has not confirmed that.
func Unannounced(e fsm.Effect, form url.Values) bool {
	return e.Destroys && form.Get(shown) == "false"
}
