//go:build !linux

package localcluster

import "syscall"

// tied cannot tie a child to its parent here: Close has to be called.
func tied() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
