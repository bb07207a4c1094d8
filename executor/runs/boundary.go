package runs

// Boundary is a point between two durable effects: after a crash there, the first is done
// and the second is not.
type Boundary string

// The boundaries of an attempt, in order.
const (
	BeforeIntent  Boundary = "before-intent"
	AfterIntent   Boundary = "after-intent"
	AfterEffect   Boundary = "after-effect"
	AfterEvidence Boundary = "after-evidence"
)

// Boundaries returns all boundaries, in order.
func Boundaries() []Boundary {
	return []Boundary{BeforeIntent, AfterIntent, AfterEffect, AfterEvidence}
}
