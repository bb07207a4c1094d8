package fsm

// Limits of texts that records of several kinds share, in bytes.
const (
	maxPoolName   = 128
	maxNote       = 1024 // a comment
	maxAuditThing = 256  // principal and resource of an audit event
)
