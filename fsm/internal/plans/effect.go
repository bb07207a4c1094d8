package plans

import (
	"slices"
	"strings"

	"github.com/holdfast-metal/holdfast/proto/holdfast/stepkind"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Effect is the effect of a step or a run on a machine.
type Effect struct {
	Text       string // in words, for people who decide whether to start it
	Destroys   bool   // it destroys data
	Interrupts bool   // it interrupts the workload of the host
	Grave      bool   // it destroys data, or does so with other parameters
}

// StepEffect returns the effect of a step with the parameters of a run.
func StepEffect(s *holdfastv1.Step, params map[string]string) Effect {
	k := stepkind.Of(s)
	e := Effect{Text: k.GetEffect(), Interrupts: k.GetInterrupts(), Grave: k.GetDestroys()}
	if k.GetWhen() != "" && effectValue(s, k, params, k.GetWhen()) == isTrue {
		e.Text, e.Destroys = k.GetEffectWhen(), k.GetDestroys()
	} else {
		e.Destroys = k.GetDestroys() && !k.GetDestroysOnlyWhen()
	}
	if s.GetPower().GetAction() == "on" {
		e.Interrupts = false
	}
	e.Text = filled(e.Text, func(name string) string { return effectValue(s, k, params, name) })
	return e
}

// effectValue returns the value of a setting of a step, else that of its parameter.
func effectValue(s *holdfastv1.Step, k *holdfastv1.StepKind, params map[string]string, name string) string {
	if own, ok := settingText(s, name); ok {
		return own
	}
	for _, p := range k.GetParams() {
		if settingOf(p) == name {
			return params[p.GetDeclares().GetName()]
		}
	}
	return ""
}

// filled returns a text with the values of the settings that it names as {name|else}.
func filled(text string, value func(name string) string) string {
	before, rest, ok := strings.Cut(text, "{")
	if !ok {
		return text
	}
	inner, after, _ := strings.Cut(rest, "}")
	name, otherwise, _ := strings.Cut(inner, "|")
	if v := value(name); v != "" {
		otherwise = v
	}
	return before + otherwise + filled(after, value)
}

// OnlySetsAside reports whether a built-in plan only cordons, drains or uncordons a node: its runs
// change nothing on the host.
func OnlySetsAside(plan *holdfastv1.Plan) bool {
	return plan.GetBuiltIn() && len(plan.GetSteps()) > 0 &&
		!slices.ContainsFunc(plan.GetSteps(), func(s *holdfastv1.Step) bool { return !SetsAside(s) })
}

// NeedsNode reports whether a built-in plan cordons or uncordons a node: a run of it on a machine
// without one cannot succeed. A drain-check is different: it finds nothing to drain.
func NeedsNode(plan *holdfastv1.Plan) bool {
	return plan.GetBuiltIn() && slices.ContainsFunc(plan.GetSteps(), func(s *holdfastv1.Step) bool {
		return SetsAside(s) && s.GetName() != "drain-check"
	})
}

// setAsideEffect returns the effect of a plan that only cordons, drains or uncordons a node.
func setAsideEffect(plan *holdfastv1.Plan) Effect {
	for _, s := range plan.GetSteps() {
		if s.GetName() != "cordon-node" && s.GetName() != "uncordon-node" {
			return Effect{Interrupts: true, Text: "cordons the node of the machine and evicts its pods; the host keeps running"}
		}
	}
	return Effect{Text: "lets the cluster place pods on the node of the machine; the host keeps running"}
}

// EffectOf returns the effect of a run of a plan with its parameters.
func EffectOf(plan *holdfastv1.Plan, params map[string]string) Effect {
	params = Complete(plan, params)
	if OnlySetsAside(plan) {
		return setAsideEffect(plan)
	}
	var all Effect
	var grave []string
	for _, s := range plan.GetSteps() {
		k := stepkind.Of(s)
		all.Interrupts = all.Interrupts || k.GetInterrupts() && s.GetPower().GetAction() != "on"
		if !k.GetDestroys() {
			continue
		}
		e := StepEffect(s, params)
		all.Destroys, all.Grave = all.Destroys || e.Destroys, true
		if !slices.Contains(grave, e.Text) {
			grave = append(grave, e.Text)
		}
	}
	switch {
	case all.Grave:
		all.Text = strings.Join(grave, "; ")
	case all.Interrupts:
		all.Text = "interrupts the host"
	default:
		all.Text = "does not interrupt the host"
	}
	return all
}
