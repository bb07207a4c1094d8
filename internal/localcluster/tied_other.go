//go:build !linux

package localcluster

import "syscall"

// tied cannot make a child end with its parent on this system: Close has to be called.
func tied() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
