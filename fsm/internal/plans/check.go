package plans

import (
	"fmt"
	"slices"

	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/limits"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Limits of a plan. They keep a command far below the size that Raft handles well.
const (
	maxStepTimeout  = 7 * 24 * 3600 // seconds
	maxStepRetries  = 100
	MaxStepPayload  = 128 << 10 // bytes of script, cloud-init or network configuration
	maxPlanIDLength = 128
)

// Validate returns the violations of a plan, and sets the canonical case of its words.
// Unknown kinds and duplicate names are violations.
func Validate(p *holdfastv1.Plan) []refusal.FieldViolation {
	if bad := limits.Violations("plan.", p); len(bad) > 0 {
		return bad
	}
	bad := refusal.Violations{Prefix: "plan."}
	if !lex.ValidPath(p.GetPlanId(), maxPlanIDLength) {
		bad.Add("plan_id", "%q is not 1 to %d letters, digits, '.', '_', '-', ':' or '/'", p.GetPlanId(), maxPlanIDLength)
	}
	if len(p.GetSteps()) == 0 {
		bad.Add("steps", "has no steps, 1 to %d are allowed", limits.Steps)
	}
	seen := map[string]int{}
	for i, s := range p.GetSteps() {
		at := fmt.Sprintf("steps[%d].", i)
		if !lex.ValidName(s.GetName(), 64) {
			bad.Add(at+"name", "%q is not 1 to 64 letters, digits, '.', '_', '-' or ':'", s.GetName())
		} else if first, dup := seen[s.GetName()]; dup {
			bad.Add(at+"name", "%q is the name of steps[%d] too: step names are unique in a plan", s.GetName(), first)
		} else {
			seen[s.GetName()] = i
		}
		if n := s.GetTimeoutSeconds(); n < 0 || n > maxStepTimeout {
			bad.Add(at+"timeout_seconds", "%d is not 0 to %d", n, maxStepTimeout)
		}
		if n := s.GetMaxRetries(); n < 0 || n > maxStepRetries {
			bad.Add(at+"max_retries", "%d is not 0 to %d", n, maxStepRetries)
		}
		for _, v := range checkSettings(s) {
			bad.Add(at+v.Field, "%s", v.Description)
		}
	}
	for _, v := range checkDeclarations(p) {
		bad.Add(v.Field, "%s", v.Description)
	}
	console := func(s *holdfastv1.Step) bool { return s.GetConsole() != nil }
	if len(p.GetSteps()) > 1 && slices.ContainsFunc(p.GetSteps(), console) {
		bad.Add("steps", "a console must be the only step")
	}
	return bad.Fields
}
