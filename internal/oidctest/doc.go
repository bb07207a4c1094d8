// Package oidctest is an OpenID provider for tests. It signs people in without asking, with the
// authorization code flow and PKCE, the device flow and refresh tokens, and it can fail in
// each way that a real one does.
//
// It must not be imported outside of tests.
package oidctest
