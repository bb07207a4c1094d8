// Package cli is the operator's command line: it puts together the commands of `holdfast` that are
// clients of a cluster.
//
// The packages below have the commands, one for each resource. They stand on start and kinds, which
// have what several resources use, these on output and prompt, and all on app, the frame of a
// command. No resource imports another.
//
// Together they own the words, flags, output formats and exit codes, which scripts rely on: data
// goes to standard output, notes and errors to standard error. They must not decide anything that
// the server decides, nor import the server's packages: what they know comes through the client
// package.
package cli
