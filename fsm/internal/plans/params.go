package plans

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

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

// paramsOf returns the run parameters that a step reads, and the parameters that a run must
// have because neither the step nor its plan has the value.
func paramsOf(s *holdfastv1.Step) (read, needed []string) {
	switch k := s.GetKind().(type) {
	case *holdfastv1.Step_Net:
		if k.Net.GetConfig() == "" {
			needed = []string{"net_config"}
		}
	case *holdfastv1.Step_Media:
		if !k.Media.GetEject() && k.Media.GetUrl() == "" {
			needed = []string{"url"}
		}
	}
	if s.GetSsh() != nil {
		return commandParams(s), nil
	}
	return stepkind.Of(s).GetParams(), needed
}

// commandParams returns the run parameters that the command of a step reads, as environment
// variables: those that the step declares, and those that the command or script mentions.
func commandParams(s *holdfastv1.Step) []string {
	read := slices.Clone(s.GetSsh().GetParams())
	if slices.Contains([]string{"cordon-node", "uncordon-node", "drain-node", "drain-check"}, s.GetName()) {
		read = append(read, "cluster_ref", "force")
	}
	text := strings.Join(append([]string{s.GetSsh().GetScript(), s.GetSsh().GetCommand()}, s.GetSsh().GetArgs()...), "\n")
	for _, m := range paramVariable.FindAllStringSubmatch(text, -1) {
		read = append(read, strings.ToLower(m[1]))
	}
	return read
}

// bootModes returns the boot modes of a netboot step.
func bootModes() []string { return []string{"keep", "uefi", "bios"} }

// checkBootMode returns an error if the parameter boot_mode is invalid or contradicts a step:
// only UEFI boots by HTTP.
func checkBootMode(plan *holdfastv1.Plan, mode string) *refusal.Error {
	if mode != "" && !slices.Contains(bootModes(), mode) {
		return refusal.InvalidField("params.boot_mode", "%q is not one of %s", mode, strings.Join(bootModes(), ", "))
	}
	for _, s := range plan.GetSteps() {
		if s.GetNetboot().GetMode() == "HTTP" && mode == "bios" && s.GetNetboot().GetBootMode() == "" {
			return refusal.InvalidField("params.boot_mode",
				"is bios, and step %q of plan %q boots by HTTP, which requires UEFI", s.GetName(), plan.GetPlanId())
		}
	}
	return nil
}

// CheckParams returns an error if a plan does not read one of a run's parameters, or requires
// one that is missing. With a mistyped name, the plan would otherwise run with a default,
// such as another image.
func CheckParams(plan *holdfastv1.Plan, params map[string]string) *refusal.Error {
	reads := map[string]bool{}
	for _, s := range plan.GetSteps() {
		read, needed := paramsOf(s)
		for _, name := range read {
			reads[name] = true
		}
		for _, name := range needed {
			if params[name] == "" {
				return refusal.InvalidField("params."+name,
					"is required: step %q of plan %q has no value: set the parameter", s.GetName(),
					plan.GetPlanId())
			}
		}
	}
	if err := checkBootMode(plan, params["boot_mode"]); err != nil {
		return err
	}
	known := slices.Sorted(maps.Keys(reads))
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if reads[name] {
			continue
		}
		guess := nearest.Of(name, known)
		if guess != "" {
			guess = ": did you mean " + guess + "?"
		}
		return refusal.InvalidField("params."+lex.Clip(name, maxParamShown), "no step of plan %q reads it%s; it reads: %s",
			plan.GetPlanId(), guess,
			cmp.Or(strings.Join(known, ", "), "no parameters"))
	}
	return nil
}
