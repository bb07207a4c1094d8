package executor

// Boundary is a place between two durable effects: where a crash leaves one done and the other not.
type Boundary string

// The boundaries of an attempt, in order.
const (
	BeforeIntent  Boundary = "before-intent"
	AfterIntent   Boundary = "after-intent"
	AfterEffect   Boundary = "after-effect"
	AfterEvidence Boundary = "after-evidence"
)

// Boundaries lists all of them.
func Boundaries() []Boundary {
	return []Boundary{BeforeIntent, AfterIntent, AfterEffect, AfterEvidence}
}
