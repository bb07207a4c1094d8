package fsm

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/registry"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// The reasons that other packages decide by.
const (
	ReasonPoolNotFound = registry.ReasonPoolNotFound // its manager must register again
	ReasonPoolInUse    = registry.ReasonPoolInUse
)

// CheckPool returns the violations of a declared or registered pool, and trims its texts.
func CheckPool(p *holdfastv1.Pool) []FieldViolation { return registry.CheckPool(p) }

// CheckPoolReport returns the violations of a heartbeat's numbers. Impossible measurements
// are refused by field, so that the author of the manager can find the cause.
func CheckPoolReport(r *internalv1.PoolReport) []FieldViolation { return registry.CheckPoolReport(r) }

// PoolQuery selects pools for placement. The zero value matches any pool.
type PoolQuery = registry.PoolQuery

// ReasonServiceNotFound is the reason for ids that were never registered.
const ReasonServiceNotFound = registry.ReasonServiceNotFound

// CheckTarget returns the violations of a target. An empty id is valid: the server generates
// one.
func CheckTarget(s *holdfastv1.ServiceTarget) []FieldViolation { return registry.CheckTarget(s) }

// ServiceMissingFor is how long a service is listed as missing before the server deregisters
// it.
const ServiceMissingFor = registry.ServiceMissingFor

// AutoDeregistered reports whether the server has deregistered a service because it was
// missing for too long. Such a service returns with its next ping, because no one asked for
// the deregistration.
func AutoDeregistered(s *holdfastv1.Service) bool { return registry.AutoDeregistered(s) }
