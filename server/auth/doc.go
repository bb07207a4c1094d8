// Package auth is the gate of a peer: it decides who makes a call, what they may do, and how often
// (docs/security.md).
//
// It owns credentials (client certificates, tokens, OIDC access tokens, identities that peers
// forward), the one table of rules for methods and the door for HTTP routes, the limits per caller,
// and what is kept of refusals until they are in the audit trail. Callers are authenticated on the
// peer that takes the call and authorized where it is served.
//
// It must not know resources: what has to hold at the moment of a change (the token is good, the
// machine is in the caller's pools) is checked by the FSM. It stores no secret, and none of its
// errors and log lines holds one.
package auth
