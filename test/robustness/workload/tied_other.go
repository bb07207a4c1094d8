//go:build !linux

package workload

import "syscall"

// tied cannot tie a child to its parent here.
func tied() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
