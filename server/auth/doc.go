// Package auth is the gate of a peer: it authenticates callers, authorizes their calls,
// and limits their rates (docs/security.md).
//
// It owns the credentials: client certificates, tokens, OIDC access tokens, and
// identities that peers forward. It also owns the access rules of all methods and HTTP
// routes, the rate limits, and the refusals that are not yet in the audit trail. A call
// is authenticated on the peer where it arrives, and authorized on the peer that serves
// it.
//
// It must not know resources. The FSM checks conditions that must hold at the time of a
// change: the token is valid, and the machine is in the caller's pools. The package
// stores no secret, and none of its errors and log lines contains one.
package auth
