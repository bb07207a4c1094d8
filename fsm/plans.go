package fsm

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/plans"
	"github.com/holdfast-metal/holdfast/proto/holdfast/stepkind"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
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

// Installs reports whether a plan writes an image to the disk.
func Installs(p *holdfastv1.Plan) bool { return plans.Installs(p) }

// CheckParams returns an error if a plan does not read one of a run's parameters, or requires
// one that is missing. With a mistyped name, the plan would otherwise run with a default,
// such as another image.
func CheckParams(plan *holdfastv1.Plan, params map[string]string) *Error {
	return plans.CheckParams(plan, params)
}

// CheckReplacePlan returns an error if a plan may not be replaced.
func CheckReplacePlan(old *holdfastv1.Plan, replace bool) *Error {
	return plans.CheckReplace(old, replace)
}

// SamePlan reports whether two plans have the same id, display name and steps.
func SamePlan(a, b *holdfastv1.Plan) bool { return plans.Same(a, b) }

// CheckMediaURL returns an error if the URL of an image for a virtual drive is invalid. It is
// recorded and visible to viewers, so it must not contain a password.
func CheckMediaURL(s string) error { return plans.CheckMediaURL(s) }

// KindOf returns the name of a step's kind, as run status and filters show it, or "".
func KindOf(s *holdfastv1.Step) string { return stepkind.Name(s) }

// ValidatePlan returns the violations of a plan, and sets the canonical case of its words.
// Unknown kinds and duplicate names are violations.
func ValidatePlan(p *holdfastv1.Plan) []FieldViolation { return plans.Validate(p) }
