package core

// Limits of texts that records of several kinds share, in bytes.
const (
	MaxPoolName   = 128
	MaxNote       = 1024 // a comment
	MaxAuditThing = 256  // principal and resource of an audit event
)
