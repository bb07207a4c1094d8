// Package output prints resources of any kind in the format of -o, as lists, one by one and as they
// change, and makes the commands that all kinds have: list, get and delete. It also reads documents
// from files.
//
// It must not know a kind: those that have it describe it as a Kind.
package output
