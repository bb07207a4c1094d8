// Package cli is the operator's command line: the verbs of `holdfast` that are clients of a
// cluster.
//
// It owns the words, flags, output formats and exit codes, which scripts rely on: data goes to
// standard output, notes and errors to standard error. It must not decide anything that the server
// decides, nor import the server's packages: what it knows comes through the client package.
package cli
