package fsm

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/plans"
	"github.com/holdfast-metal/holdfast/proto/holdfast/stepkind"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// CanonicalType returns the stored form of a run type: upper case with underscores
// (docs/clients.md, 002).
func CanonicalType(s string) (string, bool) { return plans.CanonicalType(s) }

// DefaultPlanID returns the plan of a canonical run type for requests that name none.
func DefaultPlanID(canonicalType string) string { return plans.DefaultID(canonicalType) }

// DefaultPlans returns the built-in plans: one per run type (docs/clients.md, 002), and one
// for each operation on a single machine. The first leader stores them, so that all peers
// have the same plans, also in mixed versions.
func DefaultPlans() []*holdfastv1.Plan { return plans.Defaults() }

// Genesis returns the commands that make the state of a new cluster.
func Genesis() []*internalv1.Command {
	var cmds []*internalv1.Command
	for _, p := range DefaultPlans() {
		cmds = append(cmds, &internalv1.Command{Principal: "system", Op: &internalv1.Command_CreatePlan{
			CreatePlan: &internalv1.CreatePlan{Plan: p, BuiltIn: true}}})
	}
	return cmds
}

// Installs reports whether a plan writes an image to the disk.
func Installs(p *holdfastv1.Plan) bool { return plans.Installs(p) }

// CheckParams returns an error if a plan does not read one of a run's parameters, requires one that
// is missing, or does not allow a value. A run with a mistyped name or value would otherwise do
// something else than was asked.
func CheckParams(plan *holdfastv1.Plan, params map[string]string) *Error {
	return plans.CheckParams(plan, params)
}

// Values are the parameters of a run in the form of their types.
type Values = plans.Values

// ParseParams returns the parameters of a run, with the defaults of its plan, in the form of their
// types, or the error of CheckParams.
func ParseParams(plan *holdfastv1.Plan, params map[string]string) (Values, *Error) {
	return plans.ParseParams(plan, params)
}

// CheckValue returns why a declaration does not allow a value, or "" if it does.
func CheckValue(p *holdfastv1.Param, value string) string { return plans.CheckValue(p, value) }

// PlanParams returns the parameters that runs of a plan may set, by name.
func PlanParams(plan *holdfastv1.Plan) []*holdfastv1.Param { return plans.Params(plan) }

// CompleteParams returns the parameters of a run with the defaults that its plan declares.
func CompleteParams(plan *holdfastv1.Plan, params map[string]string) map[string]string {
	return plans.Complete(plan, params)
}

// Effect is the effect of a step or a run on a machine.
type Effect = plans.Effect

// EffectOf returns the effect of a run of a plan with its parameters.
func EffectOf(plan *holdfastv1.Plan, params map[string]string) Effect {
	return plans.EffectOf(plan, params)
}

// StepEffect returns the effect of a step with the parameters of a run.
func StepEffect(s *holdfastv1.Step, params map[string]string) Effect {
	return plans.StepEffect(s, params)
}

// WrittenPlan returns the fields of a plan that its author has set. Its parts are shared.
func WrittenPlan(p *holdfastv1.Plan) *holdfastv1.Plan { return plans.Written(p) }

// CheckReplacePlan returns an error if a plan may not be replaced.
func CheckReplacePlan(old *holdfastv1.Plan, replace bool) *Error {
	return plans.CheckReplace(old, replace)
}

// SamePlan reports whether two plans were written alike.
func SamePlan(a, b *holdfastv1.Plan) bool { return plans.Same(a, b) }

// CheckMediaURL returns an error if the URL of an image for a virtual drive is invalid. It is
// recorded and visible to viewers, so it must not contain a password.
func CheckMediaURL(s string) error { return plans.CheckMediaURL(s) }

// KindOf returns the name of a step's kind, as run status and filters show it, or "".
func KindOf(s *holdfastv1.Step) string { return stepkind.Name(s) }

// ValidatePlan returns the violations of a plan, and sets the canonical case of its words.
// Unknown kinds and duplicate names are violations.
func ValidatePlan(p *holdfastv1.Plan) []FieldViolation { return plans.Validate(p) }

// BrakeOf returns the brake that holds the runs of a plan on machines of a pool, or nil.
func BrakeOf(p *holdfastv1.Plan, pool string) *holdfastv1.PlanBrake { return plans.BrakeOf(p, pool) }
