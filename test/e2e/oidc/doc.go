// Package oidc tests how people sign in, at the dashboard and at the command line, with the OpenID
// provider of github.com/zitadel/oidc and a peer that is a real process (make e2e-oidc).
package oidc
