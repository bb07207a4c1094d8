// Package issuer is the built-in OIDC issuer, for clients of the discovery API that want an OAuth2
// access token (RFC 6749 §4.4; docs/clients.md, 003).
//
// It owns the discovery document, the token endpoint, the published keys, and the keys' life: the
// leader makes the next one ahead of its time, every peer signs with what the replicated state
// says. A client is a token of role SERVICE: its id and its value.
//
// It must not decide what a token opens: package auth does, from the record of the client's token,
// so that a client that is revoked is out at once, whatever it still holds.
package issuer
