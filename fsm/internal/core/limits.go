package core

// Limits of texts that records of several kinds share, in bytes.
const (
	MaxPoolName  = 128
	MaxNote      = 1024 // a comment
	MaxPrincipal = 256  // a principal, and the resource of an audit event
)

// FirstKept returns the number of the first row that a sequence keeps: at most limit rows up to
// the last one.
func FirstKept(first, last, limit uint64) uint64 {
	return max(first, 1, last-min(last, limit-1))
}
