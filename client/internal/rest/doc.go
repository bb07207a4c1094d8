// Package rest is the common part of the HTTP clients in client/: several base URLs of one
// cluster, any of which accepts any call, a timeout for every try, bearer tokens that can
// change, and waits between tries.
//
// The package decides which address is tried next and how long to wait. It knows no path,
// body or rule of any API, and never decides that a request has failed permanently: its
// callers do.
package rest
