//go:build !linux

package workload

import "syscall"

// tied cannot tie a child to its parent on this system.
func tied() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
