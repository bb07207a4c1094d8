// Package call owns the context of a call to the API: the metadata of the call and of its answer,
// the consistency that it requires, and its identity over repeated deliveries. It must not know
// which peer serves the call.
package call

import "context"

// Metadata of calls (docs/concepts.md).
const (
	// HeaderConsistency is sent in requests: "stale" or "linearizable", the default.
	HeaderConsistency = "holdfast-consistency"
	// HeaderMinIndex is sent in requests: an index that the answer must include.
	HeaderMinIndex = "holdfast-min-index"
	// HeaderIndex is sent in every answer: the index of the state that it was read from.
	HeaderIndex = "holdfast-index"
	// HeaderLeader is sent in every answer: the id of the leader, empty if none is known.
	HeaderLeader = "holdfast-leader"
	// HeaderLastContact is sent in every answer: milliseconds since the last contact with
	// the leader. It is 0 on the leader and -1 if there was none.
	HeaderLastContact = "holdfast-last-contact-ms"

	// HeaderCall is sent with writes by callers that repeat them if their peer dies. It identifies
	// the call, so that it has its effect once: 16 random bytes in base64url, a semicolon, and the
	// milliseconds since the first try, which are 0 in that try.
	HeaderCall = "holdfast-call"
	// HeaderForwardedBy names the peer that has forwarded a call. The call is not forwarded again.
	HeaderForwardedBy = "holdfast-forwarded-by"
)

// Consistency is the consistency that a read requires. The zero value requires a
// linearizable read: it sees every write that was acknowledged before the read began.
type Consistency struct {
	// Stale allows a read of the local state as it is.
	Stale bool
	// MinIndex is an index that the local state must include. Reads wait for it.
	MinIndex uint64
}

type consistencyKey struct{}

// WithConsistency returns a context whose reads through View have this consistency.
func WithConsistency(ctx context.Context, c Consistency) context.Context {
	return context.WithValue(ctx, consistencyKey{}, c)
}

// ConsistencyFrom returns the consistency of the context.
func ConsistencyFrom(ctx context.Context) Consistency {
	c, _ := ctx.Value(consistencyKey{}).(Consistency)
	return c
}
