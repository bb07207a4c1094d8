package plans

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/internal/nearest"
	"github.com/holdfast-metal/holdfast/proto/holdfast/stepkind"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// maxParamShown bounds the name of a parameter in an error, in bytes.
const maxParamShown = 256

// paramVariable matches the environment variable of a run parameter in a command or script.
var paramVariable = regexp.MustCompile(`HOLDFAST_PARAM_([A-Z0-9_]+)`)

// reader is a step that reads a parameter.
type reader struct {
	step  *holdfastv1.Step
	param *holdfastv1.StepParam
	fixed bool // the step has a value of its own
}

// readers returns the steps that read parameters, and the parameters, in the order of the steps.
func readers(plan *holdfastv1.Plan) []reader {
	var all []reader
	for _, s := range plan.GetSteps() {
		if s.GetSsh() != nil {
			for _, p := range commandParams(s) {
				all = append(all, reader{step: s, param: &holdfastv1.StepParam{Declares: p}})
			}
			continue
		}
		for _, p := range stepkind.Of(s).GetParams() {
			if reads(s, p) {
				all = append(all, reader{step: s, param: p, fixed: hasSetting(s, settingOf(p))})
			}
		}
	}
	return all
}

// settingOf returns the setting of a step that has precedence over a parameter.
func settingOf(p *holdfastv1.StepParam) string {
	return cmp.Or(p.GetSetting(), p.GetDeclares().GetName())
}

// hasSetting reports whether a step has a value of a setting.
func hasSetting(s *holdfastv1.Step, name string) bool {
	_, ok := settingText(s, name)
	return ok
}

// settingText returns the value of a setting of a step, and whether the step has one.
func settingText(s *holdfastv1.Step, name string) (string, bool) {
	m := s.ProtoReflect()
	kind := m.WhichOneof(m.Descriptor().Oneofs().ByName("kind"))
	if kind == nil {
		return "", false
	}
	settings := m.Get(kind).Message()
	field := settings.Descriptor().Fields().ByName(protoreflect.Name(name))
	if field == nil || !settings.Has(field) {
		return "", false
	}
	return settings.Get(field).String(), true
}

// commandParams returns the parameters that the command of a step reads, as environment variables:
// those that the step lists, and those that the command or script mentions.
func commandParams(s *holdfastv1.Step) []*holdfastv1.Param {
	var all []*holdfastv1.Param
	if SetsAside(s) {
		all = append(all, declaredBy("join", "cluster_ref"), declaredBy("rma", "force"))
	}
	text := strings.Join(append([]string{s.GetSsh().GetScript(), s.GetSsh().GetCommand()}, s.GetSsh().GetArgs()...), "\n")
	names := slices.Clone(s.GetSsh().GetParams())
	for _, m := range paramVariable.FindAllStringSubmatch(text, -1) {
		names = append(names, strings.ToLower(m[1]))
	}
	for _, name := range names {
		all = append(all, &holdfastv1.Param{Name: name, Type: holdfastv1.Param_TEXT, Multiline: true})
	}
	return all
}

// declaredBy returns a parameter as a kind of step declares it.
func declaredBy(kind, name string) *holdfastv1.Param {
	for _, p := range stepkind.Named(kind).GetParams() {
		if p.GetDeclares().GetName() == name {
			return p.GetDeclares()
		}
	}
	return nil
}

// Params returns the parameters that runs of a plan may set, by name: as the plan declares them,
// else as the kinds of its steps do. One that its steps fix is left out.
func Params(plan *holdfastv1.Plan) []*holdfastv1.Param {
	all := map[string]*holdfastv1.Param{}
	for _, r := range readers(plan) {
		p := r.param.GetDeclares()
		if had := all[p.GetName()]; r.fixed || had != nil && had.GetDescription() != "" {
			continue
		}
		all[p.GetName()] = p
	}
	for _, p := range plan.GetParams() {
		if had := all[p.GetName()]; had.GetRequired() && !p.GetRequired() && p.GetDefault() == "" {
			p = proto.CloneOf(p)
			p.Required = true
		}
		all[p.GetName()] = p
	}
	names := slices.Sorted(maps.Keys(all))
	list := make([]*holdfastv1.Param, len(names))
	for i, name := range names {
		list[i] = all[name]
	}
	return list
}

// Complete returns the parameters of a run with the defaults that its plan declares. It returns
// params itself if there is nothing to add.
func Complete(plan *holdfastv1.Plan, params map[string]string) map[string]string {
	full := params
	for _, p := range plan.GetParams() {
		if _, set := full[p.GetName()]; set || p.GetDefault() == "" {
			continue
		}
		if len(full) == len(params) {
			full = maps.Clone(params)
		}
		if full == nil {
			full = map[string]string{}
		}
		full[p.GetName()] = p.GetDefault()
	}
	return full
}

// CheckParams returns an error if a plan does not read one of a run's parameters, requires one that
// is missing, or does not allow a value. A run with a mistyped name or value would otherwise do
// something else than was asked.
func CheckParams(plan *holdfastv1.Plan, params map[string]string) *refusal.Error {
	_, err := ParseParams(plan, params)
	return err
}

// ParseParams returns the parameters of a run, with the defaults of its plan, in the form of their
// types. It is the only place that reads them as anything else than text.
func ParseParams(plan *holdfastv1.Plan, params map[string]string) (Values, *refusal.Error) {
	params = Complete(plan, params)
	if len(params) == 0 { // as most runs
		return nil, checkRequired(plan, params)
	}
	values := make(Values, len(params))
	for _, name := range slices.Sorted(maps.Keys(params)) {
		at := "params." + lex.Clip(name, maxParamShown)
		v, known, why := valueOf(plan, name, params[name])
		if !known {
			return nil, unread(plan, name, at)
		}
		if why != "" {
			return nil, refusal.InvalidField(at, "%s", why)
		}
		values[name] = v
	}
	if err := checkRequired(plan, params); err != nil {
		return nil, err
	}
	return values, checkTogether(plan, params, values)
}

// valueOf returns the value of a parameter in the form of its type, whether a run may set it, and
// why its value does not fit. The declaration of a plan only narrows that of a kind of step, so it
// comes first, and both count.
func valueOf(plan *holdfastv1.Plan, name, value string) (v any, known bool, why string) {
	i := slices.IndexFunc(plan.GetParams(), func(p *holdfastv1.Param) bool { return p.GetName() == name })
	if known = i >= 0; known {
		if v, why = parseValue(plan.GetParams()[i], true, value); why != "" {
			return nil, true, why
		}
	}
	declared := false
	for _, s := range plan.GetSteps() {
		for _, p := range stepkind.Of(s).GetParams() {
			if p.GetDeclares().GetName() == name && reads(s, p) && !hasSetting(s, settingOf(p)) {
				if v, why = parseValue(p.GetDeclares(), p.GetOrUrl(), value); why != "" {
					return nil, true, why
				}
				known, declared = true, true
			}
		}
	}
	for _, s := range plan.GetSteps() {
		if s.GetSsh() == nil || known && declared {
			continue
		}
		for _, p := range commandParams(s) {
			if p.GetName() == name && (!known || p.GetDescription() != "") {
				if v, why = parseValue(p, false, value); why != "" {
					return nil, true, why
				}
				known, declared = true, declared || p.GetDescription() != ""
			}
		}
	}
	return v, known, ""
}

// reads reports whether a step reads a parameter of its kind, unless it has a value of its own.
func reads(s *holdfastv1.Step, p *holdfastv1.StepParam) bool {
	return p.GetUnless() == "" || !hasSetting(s, p.GetUnless())
}

// checkRequired returns an error if a parameter is missing that the plan or one of its steps
// requires.
func checkRequired(plan *holdfastv1.Plan, params map[string]string) *refusal.Error {
	for _, p := range plan.GetParams() {
		if _, set := params[p.GetName()]; p.GetRequired() && !set {
			return refusal.InvalidField("params."+p.GetName(), "is required by plan %q: set the parameter", plan.GetPlanId())
		}
	}
	for _, s := range plan.GetSteps() {
		for _, p := range stepkind.Of(s).GetParams() {
			name := p.GetDeclares().GetName()
			if !p.GetDeclares().GetRequired() {
				continue
			}
			if _, set := params[name]; !set && reads(s, p) && !hasSetting(s, settingOf(p)) {
				return refusal.InvalidField("params."+name,
					"is required: step %q of plan %q has no value: set the parameter", s.GetName(), plan.GetPlanId())
			}
		}
	}
	return nil
}

// unread returns the refusal of a parameter that runs of a plan may not set.
func unread(plan *holdfastv1.Plan, name, at string) *refusal.Error {
	for _, r := range readers(plan) {
		if r.param.GetDeclares().GetName() == name && r.fixed {
			own, _ := settingText(r.step, settingOf(r.param))
			return refusal.InvalidField(at, "step %q of plan %q sets it itself (%s), and a run cannot change it: "+
				"leave it out, or use another plan", r.step.GetName(), plan.GetPlanId(), lex.Clip(own, maxValueShown))
		}
	}
	known := Params(plan)
	names := make([]string, len(known))
	for i, p := range known {
		names[i] = p.GetName()
	}
	guess := nearest.Of(name, names)
	if guess != "" {
		guess = ": did you mean " + guess + "?"
	}
	return refusal.InvalidField(at, "no step of plan %q reads it%s; it reads: %s", plan.GetPlanId(), guess,
		cmp.Or(strings.Join(names, ", "), "no parameters"))
}

// SetsAside reports whether a step cordons, drains or uncordons the node of its machine. Such steps
// are scripts, recognized by name, which use the API of the cluster if that is registered.
func SetsAside(s *holdfastv1.Step) bool {
	return s.GetSsh() != nil &&
		slices.Contains([]string{"cordon-node", "uncordon-node", "drain-node", "drain-check"}, s.GetName())
}

// bootModes returns the boot modes of a netboot step.
func bootModes() []string { return declaredBy("netboot", "boot_mode").GetChoices() }

// checkTogether returns an error if values contradict each other or a step: only UEFI boots by
// HTTP.
func checkTogether(plan *holdfastv1.Plan, params map[string]string, v Values) *refusal.Error {
	mode := v.Text("boot_mode")
	if v.Bool("uefi") && mode != "" && mode != "uefi" {
		return refusal.InvalidField("params.boot_mode", "is %s, and uefi is true: set only one of them", mode)
	}
	for _, s := range plan.GetSteps() {
		if s.GetNetboot().GetMode() == "HTTP" && mode == "bios" && s.GetNetboot().GetBootMode() == "" {
			return refusal.InvalidField("params.boot_mode",
				"is bios, and step %q of plan %q boots by HTTP, which requires UEFI", s.GetName(), plan.GetPlanId())
		}
	}
	if version, set := params["version"]; set && plan.GetPlanId() == DefaultID("UPGRADE") &&
		!VersionOK.MatchString(version) {
		return refusal.InvalidField("params.version", "%q is not a version of Kubernetes: want one like 1.31.2",
			lex.Clip(version, maxValueShown))
	}
	return nil
}
