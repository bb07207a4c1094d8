package fsm

import (
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Drains reports whether the success of a step means that the machine's node is drained. Such
// steps are scripts, recognized by name.
func Drains(s *holdfastv1.StepStatus) bool {
	return s.GetName() == "drain-node" || s.GetName() == "drain-check"
}

// ProofSkipped is the evidence key for a step that was skipped because its host is dead. Its
// value is the reason.
const ProofSkipped = "skipped"

// Skipped reports whether a step succeeded because it was skipped.
func Skipped(s *holdfastv1.StepStatus) bool {
	return lastAttempt(s).GetEvidenceAfter()[ProofSkipped] != ""
}
