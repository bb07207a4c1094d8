// Package client is the Go SDK of Holdfast: it talks to any peer of a cluster and goes on with
// another one when that peer fails.
//
// It owns three decisions that every program would otherwise have to make again: which address is
// asked next, which calls may be repeated when nobody knows whether they were applied, and where a
// broken stream goes on. It must not know how peers work inside: it imports the public protos only.
//
// A call that ends with an error that is not the server's own answer is a *CallError, which says
// whether the request may have been applied all the same.
package client
