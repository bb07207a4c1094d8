//go:build !linux

package proc

import "syscall"

// tied cannot tie a child to its parent on this system: Close has to be called.
func tied() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
