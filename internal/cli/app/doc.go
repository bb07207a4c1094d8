// Package app is the frame of each command: one run of the command line with its streams, global
// flags and connection, and how commands check their arguments, flags and words, complete them, and
// report errors with exit codes.
//
// It must not know a resource, nor how one is printed.
package app
