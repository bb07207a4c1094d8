//go:build !linux

package transport

import "syscall"

// giveUpUnacknowledged does nothing: the kernel's own timeout applies.
func giveUpUnacknowledged(string, string, syscall.RawConn) error { return nil }
