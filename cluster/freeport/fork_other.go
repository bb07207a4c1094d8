//go:build !linux

package freeport

// withoutFork calls f. On these systems, opening a socket takes the lock of fork by itself.
func withoutFork(f func() error) error { return f() }
