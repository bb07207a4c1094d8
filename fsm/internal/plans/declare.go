package plans

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/limits"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Limits of the parameters that a plan declares.
const (
	maxChoice      = 128  // bytes
	maxDescription = 500  // bytes
	maxDefault     = 4096 // bytes
)

// checkDeclarations returns the violations of the parameters that a plan declares.
func checkDeclarations(plan *holdfastv1.Plan) []refusal.FieldViolation {
	var bad refusal.Violations
	all := readers(plan)
	runs := slices.ContainsFunc(plan.GetSteps(), func(s *holdfastv1.Step) bool { return s.GetSsh() != nil })
	seen := map[string]int{}
	for i, p := range plan.GetParams() {
		d := declaration{Param: p, at: fmt.Sprintf("params[%d].", i), bad: &bad}
		if !validDeclared(p.GetName()) {
			bad.Add(d.at+"name", "%q is not 1 to 64 lower-case letters, digits or '_', and a letter first",
				lex.Clip(p.GetName(), 64))
			continue
		}
		if first, twice := seen[p.GetName()]; twice {
			bad.Add(d.at+"name", "%q is the name of params[%d] too", p.GetName(), first)
			continue
		}
		seen[p.GetName()] = i
		d.check()
		d.checkReaders(plan, all, runs)
	}
	return bad.Fields
}

// validDeclared reports whether a plan may declare a parameter of a name. In capitals, it is part
// of the name of an environment variable.
func validDeclared(name string) bool {
	return validParam(name) && name == lex.Lower(name) && name[0] >= 'a' && name[0] <= 'z'
}

// declaration is a parameter that a plan declares, with its place in the plan.
type declaration struct {
	*holdfastv1.Param
	at  string
	bad *refusal.Violations
}

// check checks a declaration without its plan, and sets its type.
func (d declaration) check() {
	if d.GetType() == holdfastv1.Param_TYPE_UNSPECIFIED {
		d.Type = holdfastv1.Param_TEXT
	}
	if holdfastv1.Param_Type_name[int32(d.GetType())] == "" {
		d.bad.Add(d.at+"type", "%d is unknown", d.GetType())
		return
	}
	if len(d.GetDescription()) > maxDescription || !lex.SingleLine(d.GetDescription()) {
		d.bad.Add(d.at+"description", "is not one line of at most %d bytes", maxDescription)
	}
	d.checkChoices()
	d.checkBounds()
	if d.GetMultiline() && d.GetType() != holdfastv1.Param_TEXT {
		d.bad.Add(d.at+"multiline", "is for type TEXT, not %s", d.GetType())
	}
	switch value := d.GetDefault(); {
	case value == "":
	case d.GetRequired():
		d.bad.Add(d.at+"required", "is true, and a default is set: set only one of them")
	case len(value) > maxDefault:
		d.bad.Add(d.at+"default", "has %d bytes, at most %d are allowed", len(value), maxDefault)
	default:
		if why := CheckValue(d.Param, value); why != "" {
			d.bad.Add(d.at+"default", "%s", why)
		}
	}
}

func (d declaration) checkChoices() {
	choices := d.GetChoices()
	switch n := len(choices); {
	case d.GetType() != holdfastv1.Param_ENUM && n > 0:
		d.bad.Add(d.at+"choices", "are for type ENUM, not %s", d.GetType())
	case d.GetType() == holdfastv1.Param_ENUM && n == 0:
		d.bad.Add(d.at+"choices", "are none: an ENUM has 1 to %d", limits.Choices)
	}
	seen := map[string]bool{}
	for i, c := range choices {
		field := fmt.Sprintf("%schoices[%d]", d.at, i)
		switch {
		case c == "" || len(c) > maxChoice || !lex.SingleLine(c) || c != strings.TrimSpace(c):
			d.bad.Add(field, "%q is not a text of 1 to %d bytes in one line", lex.Clip(c, maxValueShown), maxChoice)
		case seen[c]:
			d.bad.Add(field, "%q is there twice", c)
		}
		seen[c] = true
	}
}

func (d declaration) checkBounds() {
	bounded := []holdfastv1.Param_Type{holdfastv1.Param_INTEGER, holdfastv1.Param_DURATION, holdfastv1.Param_TEXT,
		holdfastv1.Param_NAME}
	for _, b := range []struct {
		field string
		value *int32
	}{{"min", d.Min}, {"max", d.Max}} {
		switch {
		case b.value == nil:
		case !slices.Contains(bounded, d.GetType()):
			d.bad.Add(d.at+b.field, "is for types INTEGER, DURATION, TEXT and NAME, not %s", d.GetType())
		case *b.value < 0 && d.GetType() != holdfastv1.Param_INTEGER:
			d.bad.Add(d.at+b.field, "%d is negative", *b.value)
		case d.GetType() == holdfastv1.Param_NAME && *b.value > maxNameValue:
			d.bad.Add(d.at+b.field, "%d is more than %d, the maximum of a NAME", *b.value, maxNameValue)
		}
	}
	if d.Min != nil && d.Max != nil && d.GetMin() > d.GetMax() {
		d.bad.Add(d.at+"max", "%d is less than min, %d", d.GetMax(), d.GetMin())
	}
}

// checkReaders checks that a step reads the parameter, and that the declaration only narrows that
// of the step's kind.
func (d declaration) checkReaders(plan *holdfastv1.Plan, all []reader, runs bool) {
	read := runs // each command has all parameters
	varies := false
	var fixed *holdfastv1.Step
	for _, r := range all {
		kind := r.param.GetDeclares()
		switch {
		case kind.GetName() != d.GetName() || kind.GetDescription() == "":
			continue
		case r.fixed:
			fixed = r.step
			continue
		}
		read, varies = true, true
		if d.GetType() != kind.GetType() && d.GetType() != holdfastv1.Param_ENUM {
			d.bad.Add(d.at+"type", "is %s, and step %q reads it as %s: use that, or ENUM", d.GetType(), r.step.GetName(),
				kind.GetType())
			return
		}
		for _, v := range append(slices.Clone(d.GetChoices()), d.GetDefault()) {
			if _, why := parseValue(kind, r.param.GetOrUrl(), v); v != "" && why != "" {
				d.bad.Add(d.at+"choices", "step %q reads %s, and the value %s", r.step.GetName(), d.GetName(), why)
				return
			}
		}
	}
	switch {
	case fixed != nil && !varies:
		d.bad.Add(d.at+"name", "step %q sets %s itself", fixed.GetName(), d.GetName())
	case !read:
		d.bad.Add(d.at+"name", "no step of plan %q reads %s, and none runs a command", plan.GetPlanId(), d.GetName())
	}
}
