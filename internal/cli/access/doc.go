// Package access has the commands of who may do what, and of what was done: tokens, sessions, the
// identity of the caller, and the audit trail.
//
// It must not decide what a role may do: the server does.
package access
