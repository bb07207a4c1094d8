// Package login signs people in at the command line with an OIDC issuer, and keeps their
// tokens in a file for each context.
//
// It owns the device flow (RFC 8628), the authorization code flow with a loopback redirect
// (RFC 8252), and the refresh of expired tokens. It must not talk to peers, which verify the
// tokens, and print nothing. Tokens are only in the files, which others cannot read.
package login
