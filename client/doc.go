// Package client is the Go SDK of Holdfast. It calls any peer of a cluster and continues
// with another one if that peer fails.
//
// The package makes three decisions so that no caller has to: which address is tried next,
// which calls may be repeated if their outcome is unknown, and where a broken stream
// resumes. It imports only the public protos and knows nothing of the peers' internals.
//
// A call that ends without an answer of the server returns a *CallError, which reports
// whether the request may have been applied.
package client
