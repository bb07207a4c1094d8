package fsm

import (
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Drains reports whether the success of a step means that its machine's node is drained. Scripts do
// that: they are known by their name.
func Drains(s *holdfastv1.StepStatus) bool {
	return s.GetName() == "drain-node" || s.GetName() == "drain-check"
}

// ProofSkipped is the evidence of a step that was not done because its host is dead: the reason.
const ProofSkipped = "skipped"

// Skipped reports whether a step succeeded without being done.
func Skipped(s *holdfastv1.StepStatus) bool {
	return lastAttempt(s).GetEvidenceAfter()[ProofSkipped] != ""
}
