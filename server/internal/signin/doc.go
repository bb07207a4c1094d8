// Package signin signs people in to the dashboard with their OIDC issuer: the authorization
// code flow with PKCE (docs/sign-in.md).
//
// It owns the state of a sign-in, which is in a cookie, so that another peer can finish it,
// and the choice of the token that becomes the session. It must not verify tokens, which
// package auth does as for any call. It keeps no token, stores no refresh token, and none of
// its errors contains a code, a token or a secret.
package signin
