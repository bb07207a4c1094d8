// Package issuer is the built-in OIDC issuer for clients of the discovery API that need an
// OAuth2 access token (RFC 6749 §4.4; docs/clients.md, 003).
//
// It owns the discovery document, the token endpoint, the published keys and their
// rotation. The leader creates the next key ahead of time; every peer signs with the key in
// the replicated state. A client is a token of role SERVICE, with its id and value.
//
// It must not decide about the rights of an access token. Package auth does, according to the
// record of the client's token, so that revoking a client takes effect at once.
package issuer
