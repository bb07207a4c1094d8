// Package prompt asks the person at the terminal: for the confirmation of a loss, and for a line.
//
// It owns the flags --dry-run and --yes. It must not decide what is a loss: the commands do.
package prompt
